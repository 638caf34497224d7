// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/usage"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/pkg/tracing"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
)

// secretSource is a source that knows the secrets of its pull: registries may repeat what they
// were sent, and containerd logs and returns what registries say.
type secretSource interface {
	// Redacted returns a context in which what is logged has no secret, nor more lines of a kind than
	// a few. end tells of the others.
	Redacted(ctx context.Context) (redacted context.Context, end func())
	// Clean returns an error with that cause whose text has no secret; nil for nil.
	Clean(err error) error
}

var (
	_ secretSource             = resolver.Source(nil)
	_ pwtransfer.ConfigChecker = resolver.Source(nil)
)

// ImageIndex is CRI's index of images in memory, from which it answers
// ImageStatus and ListImages.
type ImageIndex interface {
	// UpdateImage reads the record of a reference again.
	UpdateImage(ctx context.Context, reference string) error
}

// Config is what a Puller is made of. All fields are required.
type Config struct {
	// Settings are CRI's.
	Settings Settings
	// Node is the containerd that is pulled into.
	Node Node
	// Service carries out plans. It is around NewService's.
	Service *pwtransfer.Service
	// Index is CRI's.
	Index ImageIndex
}

// Puller pulls images into the node as CRI would. It is safe for concurrent
// use; pulls of one name must take turns.
type Puller struct {
	settings     Settings
	service      *pwtransfer.Service
	contents     content.Store
	images       images.Store
	containers   containers.Store
	exports      map[string]map[string]string
	snapshotters map[string]snapshots.Snapshotter
	leases       leases.Manager
	applier      diff.Applier
	mounts       mount.Manager // nil: CRI activates no mounts
	index        ImageIndex
	underWay     underWay

	prefetches prefetches
}

// New returns a Puller. The error names the field that is missing.
func New(c Config) (*Puller, error) {
	switch {
	case c.Settings.Snapshotter == "":
		return nil, errors.New("CRI has no snapshotter")
	case c.Node.Contents == nil || c.Node.Images == nil:
		return nil, errors.New("the node has no content store or no image store")
	case c.Service == nil:
		return nil, errors.New("there is no transfer service")
	case c.Index == nil:
		return nil, errors.New("CRI's index of images is missing")
	}
	return &Puller{
		settings: c.Settings, service: c.Service, index: c.Index,
		contents: c.Node.Contents, images: c.Node.Images, containers: c.Node.Containers, exports: c.Node.Exports, snapshotters: c.Node.Snapshotters,
		leases: c.Node.Leases, applier: c.Node.Applier, mounts: c.Node.Mounts,
	}, nil
}

// SnapshotterFor returns the snapshotter of a runtime handler, as CRI does.
func (p *Puller) SnapshotterFor(handler string) string { return p.settings.SnapshotterFor(handler) }

// ContainerSnapshotter returns the snapshotter that containers of a pod with that runtime handler run by,
// as CRI does.
func (p *Puller) ContainerSnapshotter(handler string) string {
	return p.settings.ContainerSnapshotter(handler)
}

// RestoresCheckpoints reports whether CRI makes the container of a checkpoint of the image
// that the checkpoint names.
func (p *Puller) RestoresCheckpoints() bool { return p.settings.RestoresCheckpoints }

// SandboxImage returns the image of pods, if CRI would pull it without the
// transfer service, or without finding its hosts.toml; "" otherwise.
func (p *Puller) SandboxImage() string {
	if !p.settings.Local && !p.settings.SeveralHostDirs {
		return ""
	}
	return p.settings.SandboxImage
}

// NeedsSandboxImage reports whether the pods of a runtime handler, "" for the
// default one, need the image of pods.
func (p *Puller) NeedsSandboxImage(handler string) bool {
	return !p.settings.WithoutSandboxImage[handler]
}

// Pull carries out a plan and returns the image ID. The snapshotter unpacks the
// image; "" = CRI's default. When Pull returns without an error, CRI shows the
// image by its ID, its tag and its digest.
func (p *Puller) Pull(ctx context.Context, plan *pwtransfer.Plan, snapshotter string) (imageID string, err error) {
	if source, ok := plan.Source.(secretSource); ok {
		redacted, end := source.Redacted(ctx)
		ctx = redacted
		defer end()
		defer func() { err = source.Clean(err) }()
	}
	started := time.Now()
	snapshotter = cmp.Or(snapshotter, p.settings.Snapshotter)
	ref := plan.Reference
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", fmt.Errorf("failed to parse image reference %q: %w", ref, err)
	}
	span := tracing.SpanFromContext(ctx)
	span.SetAttributes(tracing.Attribute("image.ref", ref), tracing.Attribute("snapshotter.name", snapshotter))
	target, err := p.transfer(ctx, plan, snapshotter)
	if err != nil {
		return "", fmt.Errorf("failed to pull and unpack image %q: %w", ref, err)
	}
	span.AddEvent("Pull and unpack image complete")

	img := images.Image{Name: ref, Target: target}
	contents := documents.WithInfo(p.contents)
	config, err := img.Config(ctx, contents, platforms.Default())
	if err != nil {
		return "", fmt.Errorf("get image config descriptor: %w", err)
	}
	imageID = config.Digest.String()
	span.SetAttributes(tracing.Attribute("image.id", imageID))
	repoTag, repoDigest := tagAndDigest(named, target.Digest)
	if err := p.name(ctx, target, p.labels(ref), imageID, repoTag, repoDigest); err != nil {
		return "", err
	}
	size, err := usage.CalculateImageUsage(ctx, img, contents, usage.WithManifestLimit(platforms.Default(), 1), usage.WithManifestUsage())
	if err == nil {
		span.SetAttributes(tracing.Attribute("image.size.bytes", size))
	}
	log.G(ctx).Infof("Pulled image %q with image id %q, repo tag %q, repo digest %q, size %q in %s",
		ref, imageID, repoTag, repoDigest, strconv.FormatInt(size, 10), time.Since(started))
	return imageID, nil
}

// UpdateImage has CRI's index read the record of a reference again.
func (p *Puller) UpdateImage(ctx context.Context, reference string) error {
	return p.index.UpdateImage(ctx, reference)
}

// ProgressTimeout is how long no byte may come before a pull ends; 0 is without
// a bound.
func (p *Puller) ProgressTimeout() time.Duration { return p.settings.ProgressTimeout }

// transfer returns what the reference was stored with.
func (p *Puller) transfer(ctx context.Context, plan *pwtransfer.Plan, snapshotter string) (ocispec.Descriptor, error) {
	if p.snapshotters[snapshotter] == nil { // of which containerd says that no unpack platforms are defined
		return ocispec.Descriptor{}, fmt.Errorf("snapshotter %q is not loaded: %w", snapshotter, errdefs.ErrFailedPrecondition)
	}
	ref := plan.Reference
	to := image.NewStore(ref,
		image.WithPlatforms(platforms.DefaultSpec()),
		image.WithUnpack(platforms.DefaultSpec(), snapshotter),
		image.WithImageLabels(p.labels(ref)),
	)
	ctx, cancel := context.WithCancelCause(ctx)
	w := newWatch(ref, plan.Source)
	defer p.underWay.add(w, plan.Source)()
	var watching sync.WaitGroup
	watching.Go(func() {
		w.cancelWithoutProgress(ctx, p.settings.ProgressTimeout, func() { cancel(resolver.ErrNoProgress) })
	})
	carriedOut := *plan
	carriedOut.Verify = p.verify(plan)
	from, stop := p.prefetching(plan, snapshotter)
	carriedOut.Source = from
	err := p.service.Pull(ctx, &carriedOut, to, transfer.WithProgress(w.progress))
	stop()
	cancel(nil)
	watching.Wait()
	if err != nil && errors.Is(context.Cause(ctx), resolver.ErrNoProgress) {
		err = fmt.Errorf("%w: %w", resolver.ErrNoProgress, err)
	}
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	target, ok := w.target()
	if !ok {
		return ocispec.Descriptor{}, errors.New("the transfer service did not carry out the plan")
	}
	return target, nil
}
