// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"maps"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/internal/shared"
	"github.com/pullwarden/pullwarden/plugin/isolation"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// maxPending bounds the downloads whose sources are remembered between
// attempts. Of an evicted one it is known that its earlier attempts had hosts, no more.
const maxPending = 4096

// contentSources knows where content came from, whichever pull of whichever
// name brought it: an image shares layers with others, and a tag that moves
// back finds its content there. The provenance is kept in labels on the
// content, with the keys of image records, and goes with the content. Until the
// content is complete, its provenance is pending in memory. Safe for concurrent
// use.
type contentSources struct {
	contents          content.Store
	files             Files // below contents
	keepWithSnapshots bool
	drops             shared.Lock[digest.Digest] // of content whose file is lost

	mu      sync.Mutex
	pending *simplelru.LRU[contentKey, provenance.Provenance]
}

// contentKey names the download of content in one namespace, by pulls of one
// scope: a download for another is not a source of this one.
type contentKey struct {
	namespace string
	scope     isolation.Scope
	digest    digest.Digest
}

func newContentSources(contents content.Store, files Files, keepWithSnapshots bool) *contentSources {
	// The error is that of a bound below one.
	pending, _ := simplelru.NewLRU[contentKey, provenance.Provenance](maxPending, nil)
	return &contentSources{contents: contents, files: files, keepWithSnapshots: keepWithSnapshots, pending: pending}
}

func keyOf(ctx context.Context, d digest.Digest) contentKey {
	namespace, _ := namespaces.Namespace(ctx)
	return contentKey{namespace, isolation.ScopeOf(ctx), d}
}

// forget drops the pending provenance of d.
func (s *contentSources) forget(ctx context.Context, d digest.Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.Remove(keyOf(ctx, d))
}

// add adds the source of bytes of d that went into the content store. An
// unknown source is not remembered, and of many hosts those for which a label has room.
func (s *contentSources) add(ctx context.Context, d digest.Digest, p provenance.Provenance) {
	if !p.Known() {
		return
	}
	key := keyOf(ctx, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	earlier, _ := s.pending.Get(key)
	p = earlier.Add(p)
	hosts, leftOut := store.DecodeSources(store.EncodeSources(p.Hosts, 0))
	s.pending.Add(key, provenance.Provenance{Reference: p.Reference, Hosts: hosts, More: max(p.More, leftOut)})
}

func (s *contentSources) pendingOf(key contentKey) provenance.Provenance {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, _ := s.pending.Get(key)
	return p
}

// persist returns where d came from, which has just been fetched, and writes it to the content's
// labels if they do not say it yet. The error is errdefs.ErrNotFound when the content is
// not there. An error comes with the provenance that is pending. To a pull with documents of
// its own, what it has fetched came from where it fetched it; it writes nothing: the labels are
// committed with the content, and where that was there before, it came from elsewhere.
func (s *contentSources) persist(ctx context.Context, d digest.Digest) (provenance.Provenance, error) {
	// Read before the labels: another pull may write them in between, and then
	// forgets what was pending.
	pending := s.pendingOf(keyOf(ctx, d))
	info, err := s.contents.Info(ctx, d)
	if err != nil {
		return pending, err
	}
	if isolation.OwnDocuments(ctx) && pending.Known() {
		s.forget(ctx, d)
		return pending, nil
	}
	written := decodeLabels(info.Labels)
	if written.Known() || !pending.Known() {
		// Another download was committed before this one: the bytes in the
		// store are those of the other.
		s.forget(ctx, d)
		return written, nil
	}
	// What is in the store may be of another download, which nobody has seen. These hosts have served the same content,
	// and with an unknown source each pull beside an import would be compared with what they have served just now.
	labels := encodeLabels(pending)
	if _, err := s.contents.Update(ctx, content.Info{Digest: d, Labels: labels}, pathsOf(labels)...); err != nil {
		return pending, err
	}
	s.forget(ctx, d)
	return pending, nil
}

// written returns where d came from, which has not been fetched, as its labels say: what is
// pending of it is of a download that others have finished. The error is errdefs.ErrNotFound when
// the content is not there.
func (s *contentSources) written(ctx context.Context, d digest.Digest) (provenance.Provenance, error) {
	info, err := s.contents.Info(ctx, d)
	if err != nil {
		return provenance.Provenance{}, err
	}
	s.forget(ctx, d)
	return decodeLabels(info.Labels), nil
}

// labelsFor returns what gives the labels of content that a pull of a reference commits: its
// provenance, and containerd's own label of the repository. So both are there whenever the
// content is, and take no transactions of their own.
func (s *contentSources) labelsFor(ctx context.Context, reference string) isolation.Labels {
	var own ownLabels
	label, err := docker.AppendDistributionSourceLabel(&own, reference)
	if err == nil {
		_, err = label(ctx, ocispec.Descriptor{})
	}
	if err != nil {
		own.labels = nil // containerd says so itself
	}
	return func(ctx context.Context, d digest.Digest) map[string]string {
		all := encodeLabels(s.pendingOf(keyOf(ctx, d)))
		maps.Copy(all, own.labels)
		return all
	}
}

// ownLabels keeps the labels that containerd gives to content that has none.
type ownLabels struct {
	content.Manager
	labels map[string]string
}

// Info returns that of content without labels.
func (*ownLabels) Info(context.Context, digest.Digest) (content.Info, error) {
	return content.Info{}, nil
}

// Update keeps the labels.
func (l *ownLabels) Update(_ context.Context, info content.Info, _ ...string) (content.Info, error) {
	l.labels = info.Labels
	return info, nil
}

func warnNotRecorded(ctx context.Context, d digest.Digest, err error) {
	prefixlog.G(ctx).WithError(err).Warnf("the source of content %s is not recorded", d)
}
