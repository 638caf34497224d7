// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cri decorates containerd's CRI services: PullImage asks the engine
// first, answers show the state of images, containers keep it, and everything
// else passes through.
package cri

import (
	"context"
	"fmt"
	"maps"

	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/store"
)

// Engine decides about requests; *engine.Engine is one.
type Engine interface {
	Ensure(ctx context.Context, req engine.Request) (engine.Outcome, error)
	// Start says whether Ensure would reuse the cached image without asking a
	// registry, for a pod that pulls what is not there, or does not.
	Start(ctx context.Context, req engine.Request, pulls bool) engine.Start
}

// Puller pulls in place of containerd's own PullImage; *pull.Puller is one.
type Puller interface {
	// SnapshotterFor returns the snapshotter of a pull whose request names a runtime handler, as CRI does.
	SnapshotterFor(handler string) string
	// ContainerSnapshotter returns the snapshotter that containers run by in a sandbox of a runtime handler.
	ContainerSnapshotter(handler string) string
	// Limit returns why no rule with allowed_sources can be kept with a
	// snapshotter; nil where it can.
	Limit(snapshotter string) error
	// Pull carries out a plan and returns the image ID. CRI shows the image
	// then.
	Pull(ctx context.Context, plan *transfer.Plan, snapshotter string) (imageID string, err error)
	// StockPull runs containerd's own pull of a name. One that fails has moved the name to no
	// image that CRI cannot read: such a name is removed.
	StockPull(ctx context.Context, name string, pull func() error) error
}

// ImageService is a CRI ImageService whose PullImage obeys the engine, and
// which shows the state of images.
type ImageService struct {
	runtime.ImageServiceServer
	sandboxes Sandboxes
	engine    Engine
	records   Records
	config    Config
	key       *store.Key
	puller    Puller
	starts    *Starts // nil: no policy holds for the starts of containers
	listing   listing
}

// NewImageService decorates containerd's own image service. The sandboxes are those of the pods
// that pull; the key makes the fingerprints of callers and namespaces; the puller takes the place
// of containerd's own PullImage.
func NewImageService(inner runtime.ImageServiceServer, sandboxes Sandboxes, e Engine, records Records, config Config, key *store.Key, puller Puller) *ImageService {
	s := &ImageService{ImageServiceServer: inner, sandboxes: sandboxes, engine: e, records: records, config: config, key: key, puller: puller}
	s.listing.inner, s.listing.records = inner, records
	stored, err := storedImages(inner)
	if err != nil {
		prefixlog.L().WithError(err).Info("each listing of images takes as long as containerd's own, and longer")
	}
	s.listing.stored = stored
	return s
}

// WithStarts lets the policy hold for the starts of containers, too. It is called once,
// before the service is used, and returns it.
func (s *ImageService) WithStarts(starts *Starts) *ImageService {
	s.starts = starts
	return s
}

// PullImage returns the image that its policy wants: the cached one, or that of
// the registry. Under mode = "Observe" the answer is that of containerd's own PullImage.
func (s *ImageService) PullImage(ctx context.Context, r *runtime.PullImageRequest) (*runtime.PullImageResponse, error) {
	snapshotter, err := s.snapshotter(ctx, r)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	req, n, err := s.request(r, snapshotter)
	if err != nil {
		return nil, err
	}
	started, ended := s.starts.pulling(r, req.Name)
	req.Started = started
	outcome, err := s.engine.Ensure(ctx, req)
	if outcome.Observed {
		outcome.ImageID = n.response.GetImageRef() // of the pull that was containerd's own
	}
	ended(outcome, err)
	if outcome.Observed {
		return n.response, err
	}
	if err != nil {
		return nil, toStatus(err)
	}
	return &runtime.PullImageResponse{ImageRef: outcome.ImageID}, nil
}

// PodRequest returns the request that a pod of the runtime handler that it names would make of CRI, in the
// engine's words: by then its sandbox would be there. The error is of a reference that does not parse.
func (s *ImageService) PodRequest(r *runtime.PullImageRequest) (engine.Request, error) {
	req, _, err := s.request(r, s.puller.ContainerSnapshotter(r.GetImage().GetRuntimeHandler()))
	return req, err
}

// request returns a request of CRI for a snapshotter in the engine's words, and containerd as that
// request has it.
func (s *ImageService) request(r *runtime.PullImageRequest, snapshotter string) (req engine.Request, n *node, err error) {
	named, err := reference.ParseDockerRef(r.GetImage().GetImage())
	if err != nil {
		return engine.Request{}, nil, fmt.Errorf("failed to parse image reference %q: %w", r.GetImage().GetImage(), err)
	}
	if host := reference.Domain(named); len(host) > registryname.MaxText {
		return engine.Request{}, nil, fmt.Errorf("failed to parse image reference \"%s…\": its registry has %d bytes, and no host has more than %d",
			host[:registryname.MaxText], len(host), registryname.MaxText)
	}
	n = &node{images: s.ImageServiceServer, puller: s.puller, name: named.String(), snapshotter: snapshotter, request: r}
	return engine.Request{
		Subject: policy.Subject{
			Image:       policy.ImageOf(named),
			Namespace:   r.GetSandboxConfig().GetMetadata().GetNamespace(),
			Annotations: annotations(r),
		},
		Pod:         r.GetSandboxConfig().GetMetadata().GetName(),
		Name:        named.String(),
		Credentials: s.config.credentials(r.GetAuth()),
		Caller:      s.caller(r.GetAuth()),

		NodeCredentials: s.config.shown(r.GetAuth(), s.key),
		PodNamespace:    s.key.NamespaceFingerprint(r.GetSandboxConfig().GetMetadata().GetNamespace()),
		CredentialHost:  r.GetAuth().GetServerAddress(),
		Snapshotter:     snapshotter,
		SourcesLimit:    s.puller.Limit(snapshotter),
		Runtime:         n,
	}, n, nil
}

// caller is the fingerprint of the credentials of the request, whatever host
// they are for: the same secret is the same caller. Those that the node has for a host
// are nobody's: who sends none is everybody, and asks by the node's all the same. Credentials that cannot
// be read have none.
func (s *ImageService) caller(auth *runtime.AuthConfig) store.Fingerprint {
	if auth == nil {
		return store.Anonymous
	}
	username, secret, err := credentialsFor(auth, anyHost)
	if err != nil {
		return ""
	}
	return s.key.Fingerprint(username, secret)
}

// annotations are the pod's. The kubelet puts them into the image spec and the
// sandbox config; other clients may set only one of the two.
func annotations(r *runtime.PullImageRequest) map[string]string {
	sandbox, image := r.GetSandboxConfig().GetAnnotations(), r.GetImage().GetAnnotations()
	if len(sandbox) == 0 {
		return image
	}
	all := maps.Clone(sandbox)
	maps.Copy(all, image)
	return all
}

// node is containerd, for one request.
type node struct {
	images      runtime.ImageServiceServer
	puller      Puller
	name        string
	snapshotter string
	request     *runtime.PullImageRequest
	response    *runtime.PullImageResponse // of StockPull
}

// ImageID returns the ID of the image that the name has now, or "".
func (n *node) ImageID(ctx context.Context) (string, error) {
	response, err := n.images.ImageStatus(ctx, &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: n.name}})
	if err != nil {
		return "", err
	}
	return response.GetImage().GetId(), nil
}

// Pull carries out the plan.
func (n *node) Pull(ctx context.Context, plan *transfer.Plan) (imageID string, err error) {
	return n.puller.Pull(ctx, plan, n.snapshotter)
}

// StockPull passes the request on as it came, and keeps the response.
func (n *node) StockPull(ctx context.Context) error {
	return n.puller.StockPull(ctx, n.name, func() (err error) {
		n.response, err = n.images.PullImage(ctx, n.request)
		return err
	})
}
