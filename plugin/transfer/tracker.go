// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"cmp"
	"context"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// SourceReporter is a source that reports which hosts have served what. It is
// safe for concurrent use: layers are fetched side by side.
type SourceReporter interface {
	// Hosts returns the hosts that may be asked, in their order, as references
	// spell them.
	Hosts() []string
	// ServedBy returns the hosts that have served bytes of d so far, in the
	// order in which they did so last, and the image as the last of them knows
	// it; "" when that is not known. It is zero when no host did.
	ServedBy(d digest.Digest) provenance.Provenance
}

// Files are the files of content.
type Files interface {
	// Delete removes one; errdefs.ErrNotFound where there is none.
	Delete(ctx context.Context, d digest.Digest) error
}

// TrackingConfig is all that tracking of sources needs. Only CRIHostDir may be
// left out.
type TrackingConfig struct {
	// Contents is the metadata database's content store.
	Contents content.Store
	// Files is the content store below that, which knows of no namespaces.
	Files Files
	// Snapshotter returns one of the metadata database's snapshotters, nil for a
	// name that it does not have.
	Snapshotter func(name string) snapshots.Snapshotter
	// Hosts lists the hosts that a pull without a plan may ask, in their
	// order; hosts.Aliases does. hostDirs are the roots of trees of hosts.toml
	// files; defaultScheme is for hosts that are not configured,
	// "" for containerd's choice.
	Hosts func(ctx context.Context, reference string, hostDirs []string, defaultScheme string) ([]hosts.Alias, error)
	// CRIHostDir is the directory of hosts.toml files that CRI's own pulls are made
	// with. A list of directories is none: CRI hands it to the transfer service as it
	// is, which takes it for one and finds nothing there.
	CRIHostDir string
	// KeepWithSnapshots writes the provenance of a layer to its snapshot too. It
	// is for nodes that discard layers once they are unpacked: a pull that finds
	// only the snapshot would not know its source. That costs a transaction a layer.
	KeepWithSnapshots bool
	// Now is the clock.
	Now func() time.Time
}

// tracker tracks the sources of the content in one store.
type tracker struct {
	config   TrackingConfig
	contents *contentSources
}

// Track makes the service track from now on where content comes from.
func (s *Service) Track(config TrackingConfig) {
	s.tracker.Store(&tracker{config: config, contents: newContentSources(config.Contents, config.Files, config.KeepWithSnapshots)})
}

// snapshotters returns those that an image is unpacked by.
func (t *tracker) snapshotters(unpacked []transfer.UnpackConfiguration) (all []snapshots.Snapshotter) {
	for _, u := range unpacked {
		name := cmp.Or(u.Snapshotter, defaults.DefaultSnapshotter) // as the transfer service has it
		if sn := t.config.Snapshotter(name); sn != nil {
			all = append(all, sn)
		}
	}
	return all
}

// reporting makes a source of containerd's own report its hosts. Where its
// hosts are not known, it reports none.
func (t *tracker) reporting(ctx context.Context, src *registry.OCIRegistry) *reportingSource {
	config, ok := ctx.Value(hostConfigKey{}).(hostConfig)
	if !ok && t.config.CRIHostDir != "" {
		config.dirs = []string{t.config.CRIHostDir}
	}
	aliases, err := t.config.Hosts(ctx, src.Image(), config.dirs, config.defaultScheme)
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warnf("the source of %q is not recorded", src.Image())
	}
	return newReportingSource(src, aliases)
}
