// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"strings"
	"time"

	transferimage "github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/containerd/platforms"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PullLimit bounds each pull.
const PullLimit = 2 * time.Minute

// PullOption changes a PullImage request of a kubelet.
type PullOption func(*runtimeapi.PullImageRequest)

// Annotations sets pod annotations: key, value, key, value, …
func Annotations(pairs ...string) PullOption {
	return func(r *runtimeapi.PullImageRequest) {
		for i := 0; i+1 < len(pairs); i += 2 {
			r.Image.Annotations[pairs[i]] = pairs[i+1]
			r.SandboxConfig.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

// Hint sets annotations under LabelPrefix: policy, Always, …
func Hint(pairs ...string) PullOption {
	full := make([]string, len(pairs))
	for i, s := range pairs {
		if full[i] = s; i%2 == 0 {
			full[i] = LabelPrefix + s
		}
	}
	return Annotations(full...)
}

// Credentials sets what the kubelet takes from a pull secret.
func Credentials(user, password string) PullOption {
	return Auth(&runtimeapi.AuthConfig{Username: user, Password: password})
}

// Auth sets the whole AuthConfig. Default: none.
func Auth(a *runtimeapi.AuthConfig) PullOption {
	return func(r *runtimeapi.PullImageRequest) { r.Auth = a }
}

// Pod sets the pod's namespace and name. Default: default, pod.
func Pod(namespace, name string) PullOption {
	return func(r *runtimeapi.PullImageRequest) {
		r.SandboxConfig.Metadata = &runtimeapi.PodSandboxMetadata{Name: name, Uid: name, Namespace: namespace}
	}
}

// RuntimeHandler sets the pod's runtime handler.
func RuntimeHandler(name string) PullOption {
	return func(r *runtimeapi.PullImageRequest) { r.Image.RuntimeHandler = name }
}

// Pull asks CRI for an image, as a kubelet does. It returns the image ID. The
// error is gRPC's own, as the kubelet gets it.
func (n *Node) Pull(ctx context.Context, ref string, opts ...PullOption) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, PullLimit)
	defer cancel()
	req := &runtimeapi.PullImageRequest{
		Image:         &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: ref, Annotations: map[string]string{}},
		SandboxConfig: &runtimeapi.PodSandboxConfig{Annotations: map[string]string{}},
	}
	for _, opt := range append([]PullOption{Pod("default", "pod")}, opts...) {
		opt(req)
	}
	resp, err := n.Images.PullImage(ctx, req)
	return resp.GetImageRef(), err
}

// Transfer pulls as ctr does, past CRI, with options of its command line.
// Default: with the node's hosts.toml files.
func (n *Node) Transfer(ctx context.Context, ref string, opts ...registry.Opt) error {
	if len(opts) == 0 {
		opts = []registry.Opt{registry.WithHostDir(n.HostsDirs()[0])}
	}
	source, err := registry.NewOCIRegistry(ctx, ref, opts...)
	if err != nil {
		return err
	}
	p := platforms.DefaultSpec()
	return n.Client.Transfer(ctx, source, transferimage.NewStore(ref, transferimage.WithPlatforms(p), transferimage.WithUnpack(p, "")))
}

// The reasons that a kubelet shows for a pull that fails.
const (
	ReasonRegistryUnavailable = "RegistryUnavailable"
	ReasonErrImagePull        = "ErrImagePull"
)

// KubeletReason returns the reason that a kubelet shows for the error of a pull;
// "" for none.
func KubeletReason(err error) string {
	s := status.Convert(err)
	switch {
	case err == nil:
		return ""
	case s.Code() == codes.Unknown && strings.HasPrefix(s.Message(), ReasonRegistryUnavailable):
		return ReasonRegistryUnavailable
	}
	return ReasonErrImagePull
}
