// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// origin is where the bytes of one digest came from. The zero value means that
// nothing is known.
type origin struct {
	// reference is what the host that served a manifest or index calls the
	// image; "" for other content.
	reference string
	// hosts served bytes: more than one where a download was resumed.
	hosts []string
}

func (o origin) known() bool { return o.reference != "" || len(o.hosts) > 0 }

// with adds what was served later.
func (o origin) with(later origin) origin {
	if later.reference != "" {
		o.reference = later.reference
	}
	o.hosts = union(o.hosts, later.hosts)
	return o
}

// inOrder sorts the hosts by a list of hosts; the others follow as they are.
func (o origin) inOrder(list []string) origin {
	place := func(host string) int {
		if i := slices.Index(list, host); i >= 0 {
			return i
		}
		return len(list)
	}
	o.hosts = slices.Clone(o.hosts)
	slices.SortStableFunc(o.hosts, func(a, b string) int { return place(a) - place(b) })
	return o
}

// union returns a new list of both, each host once.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, host := range b {
		if !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

// maxOpen bounds the downloads that the ledger remembers between attempts.
const maxOpen = 4096

// ledger knows where content came from, whichever pull of whichever name
// brought it: an image shares layers with others, and a tag that moves back
// finds its content there. It is kept in labels on the content, with the keys
// of image records, and goes with the content. Until content is complete, the
// ledger remembers in memory who served how much of it.
type ledger struct {
	contents content.Store

	mu   sync.Mutex
	open map[entry]origin
}

// entry is content of one namespace: what it was downloaded for counts there.
type entry struct {
	namespace string
	digest    digest.Digest
}

func newLedger(contents content.Store) *ledger {
	return &ledger{contents: contents, open: map[entry]origin{}}
}

func entryOf(ctx context.Context, d digest.Digest) entry {
	namespace, _ := namespaces.Namespace(ctx)
	return entry{namespace, d}
}

// forget drops what earlier attempts to download d got.
func (l *ledger) forget(ctx context.Context, d digest.Digest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, entryOf(ctx, d))
}

// served enters who served bytes of d that went into the content store.
func (l *ledger) served(ctx context.Context, d digest.Digest, o origin) {
	if !o.known() {
		return
	}
	e := entryOf(ctx, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[e]; !ok && len(l.open) >= maxOpen {
		for other := range l.open { // any: what is lost is only a part of a source
			delete(l.open, other)
			break
		}
	}
	l.open[e] = l.open[e].with(o)
}

func (l *ledger) pending(e entry) origin {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[e]
}

// settle writes down where d came from, if it is there now. A pull does not
// fail because that cannot be written.
func (l *ledger) settle(ctx context.Context, d digest.Digest) {
	if _, err := l.lookup(ctx, d); err != nil && !errdefs.IsNotFound(err) {
		log.G(ctx).WithError(err).Warnf("pullwarden: the source of content %s is not recorded", d)
	}
}

// lookup returns where content came from, and writes it down if that was not
// done yet. The error is errdefs.ErrNotFound when the content is not there.
func (l *ledger) lookup(ctx context.Context, d digest.Digest) (origin, error) {
	e := entryOf(ctx, d)
	// Before the labels are read: another pull may write them in between, and
	// then forgets.
	pending := l.pending(e)
	info, err := l.contents.Info(ctx, d)
	if err != nil {
		return pending, err
	}
	written := decodeOrigin(info.Labels)
	if written.known() || !pending.known() {
		// What was known before this download was committed by another one:
		// its bytes are those in the store.
		l.forget(ctx, d)
		return written, nil
	}
	labels := pending.labels()
	paths := make([]string, 0, len(labels))
	for label := range labels {
		paths = append(paths, "labels."+label)
	}
	if _, err := l.contents.Update(ctx, content.Info{Digest: d, Labels: labels}, paths...); err != nil {
		return pending, err
	}
	l.forget(ctx, d)
	return pending, nil
}

func decodeOrigin(labels map[string]string) origin {
	o := origin{reference: labels[store.LabelPullSource]}
	if hosts := labels[store.LabelContentSources]; hosts != "" {
		o.hosts = strings.Split(hosts, ",")
	}
	return o
}

func (o origin) labels() map[string]string {
	labels := map[string]string{}
	if o.reference != "" {
		labels[store.LabelPullSource] = o.reference
	}
	if len(o.hosts) > 0 {
		labels[store.LabelContentSources] = strings.Join(o.hosts, ",")
	}
	return labels
}

// image returns where an image came from: what the host that served its
// manifest or index calls it, and all hosts that served anything of it that is
// here, in the order in which the content is listed. What is of unknown origin
// has no part in it.
func (l *ledger) image(ctx context.Context, target ocispec.Descriptor) (origin, error) {
	var all origin
	walk := images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		o, err := l.lookup(ctx, desc.Digest)
		if errdefs.IsNotFound(err) {
			return nil, images.ErrSkipDesc // of another platform
		}
		if err != nil && !o.known() {
			return nil, err
		}
		if err != nil {
			log.G(ctx).WithError(err).Warnf("pullwarden: the source of content %s is not recorded", desc.Digest)
		}
		if desc.Digest == target.Digest {
			all.reference = o.reference
		}
		all.hosts = union(all.hosts, o.hosts)
		return images.Children(ctx, l.contents, desc)
	})
	if err := images.Walk(ctx, walk, target); err != nil && !errors.Is(err, images.ErrSkipDesc) {
		return origin{}, err
	}
	return all, nil
}
