// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// once runs a function at its first call.
func once(f func()) func() {
	return func() {
		if g := f; g != nil {
			f = nil
			g()
		}
	}
}

// An image that is removed, or whose name is given to another one, after all questions were
// answered, while a verifier looks at it, is no success: it is pulled, or the request fails.
func TestGoneBeforeTheEnd(t *testing.T) {
	third := image("third")
	for what, gone := range map[string]func(*node){
		"removed":  (*node).remove,
		"replaced": func(n *node) { n.mu.Lock(); n.record = cachedImage(third, now); n.record.Access = nil; n.mu.Unlock() },
	} {
		for directives, fails := range map[string]failure.Class{
			`policy = "Always"`:                              failure.None,
			`policy = "IfNotPresent"`:                        failure.None,
			"policy = \"IfDigestChanged\"":                   failure.Unavailable,
			"policy = \"IfDigestChanged\" # well":            failure.None,
			"max_age = \"1h\"\npolicy = \"IfDigestChanged\"": failure.None,
		} {
			n := &node{record: cachedImage(first, now), remote: first, checkFails: fails, forgotten: true}
			e := n.engine(rule(directives))
			removed := once(func() { gone(n) })
			e.VerifyImage = func(context.Context, string, ocispec.Descriptor) error { removed(); return nil }
			o, err := e.Ensure(t.Context(), n.request(nil))
			switch {
			case fails != failure.None && (err == nil || o.Class != fails):
				t.Errorf("%s, %s: %s (%s), %v", what, directives, o.Kind, o.Reason, err)
			case fails == failure.None && (err != nil || o.Kind != Pulled || o.ImageID != imageID(first).String() || n.record.Target.Digest != first.Digest):
				t.Errorf("%s, %s: %s (%s), %v", what, directives, o.Kind, o.Reason, err)
			}
		}
	}
}

// So is one that goes while its bytes are compared, because other hosts served it, whether
// or not its content goes with it at once.
func TestGoneWhileItIsCompared(t *testing.T) {
	for what, n := range map[string]*node{
		"it alone":     {},
		"with content": {verifyFails: true},
	} {
		n.remote, n.record = first, cachedImage(first, now)
		n.record.UnknownSources = true
		n.onVerify = once(n.remove)
		n.onOpen = func() { n.verifyFails = n.verifyFails && n.checks == 0 } // the first time
		o, err := n.engine(rule(`allowed_sources = ["*"]`)).Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != Pulled || n.record == nil || n.record.Target.Digest != first.Digest || o.ImageID != imageID(first).String() {
			t.Errorf("%s: %s (%s), %v, the node has %v", what, o.Kind, o.Reason, err, n.record)
		}
	}
}

// So is one that others have pulled meanwhile, and that goes while its manifest is looked for.
func TestGoneWhileItsManifestIsRead(t *testing.T) {
	n := &node{remote: first}
	n.onCheck = once(func() { n.record = cachedImage(first, now) })
	e := n.engine(rule(`policy = "Always"`))
	e.Content = lostManifests{n, once(n.remove)}
	req := n.request(nil)
	req.Caller = bob
	o, err := e.Ensure(t.Context(), req)
	if err != nil || o.Kind != Pulled || n.pulls != 1 || n.record == nil {
		t.Errorf("%s (%s), %v, %d pulls", o.Kind, o.Reason, err, n.pulls)
	}
}

// lostManifests are those of images that are gone when they are looked for.
type lostManifests struct {
	*node
	gone func()
}

func (m lostManifests) VerifyManifest(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error {
	if m.gone(); m.record == nil && m.pulls == 0 {
		return errdefs.ErrNotFound
	}
	return m.node.VerifyManifest(ctx, target, from, delivered)
}

// So is one that goes after its pull has stored it, before that has ended or its record is read.
func TestGoneAfterItIsStored(t *testing.T) {
	for _, directive := range []string{"", `allowed_sources = ["*"]`} {
		for what, gone := range map[string]func(*node, *Engine){
			"before it has its names": func(n *node, _ *Engine) {
				n.pullErr = fmt.Errorf("scripted: %w", pwtransfer.ErrGone)
				n.onPull = once(func() { n.onOpen = func() { n.pullErr = nil } })
			},
			"before its record is read": func(n *node, e *Engine) { e.Records = &goneRecords{n, 1} },
		} {
			n := &node{remote: first}
			e := n.engine(rule(directive))
			gone(n, e)
			o, err := e.Ensure(t.Context(), n.request(nil))
			if err != nil || o.Kind != Pulled || n.pulls != 2 || n.record == nil || n.record.Target.Digest != first.Digest {
				t.Errorf("%s, %s: %s (%s), %v, %d pulls", directive, what, o.Kind, o.Reason, err, n.pulls)
			}
		}
	}
}

// So is one that goes while it is unpacked, under a list of sources and without.
func TestGoneWhileItIsCompleted(t *testing.T) {
	for _, list := range []string{"", `allowed_sources = ["registry.test"]`} {
		n := &node{record: cachedImage(first, now), remote: second, packed: true, unpacked: []string{"registry.test"}}
		n.record.PullSource = "registry.test/app"
		n.onStore = func(s *store.State) { s.PullSource = "registry.test/app" }
		req := n.request(nil)
		req.Runtime = &completions{node: n, meanwhile: n.remove}
		if o, err := n.engine(rule(`policy = "IfNotPresent"`, list)).Ensure(t.Context(), req); o.Kind != Pulled || o.Digest != second.Digest || err != nil {
			t.Errorf("%q: %s (%s), %v", list, o.Kind, o.Reason, err)
		}
	}
}

// goneRecords lose an image that is there, so many times.
type goneRecords struct {
	*node
	times int
}

func (r *goneRecords) Get(ctx context.Context, name string) (store.Record, error) {
	if r.record != nil && r.times > 0 {
		r.times--
		r.remove()
	}
	return r.node.Get(ctx, name)
}

// An image that is removed each time fails the request.
func TestGoneEachTime(t *testing.T) {
	n := &node{remote: first}
	e := n.engine(rule(`allowed_sources = ["*"]`))
	e.Records = &goneRecords{n, maxWalks}
	o, err := e.Ensure(t.Context(), n.request(nil))
	if !errors.Is(err, errRemoved) || o.Kind != Failed || n.pulls != maxWalks {
		t.Errorf("%s, %v after %d pulls", o.Kind, err, n.pulls)
	}
}

// A proof lasts until the image is removed. Where that happens while the registry is asked for the digest alone, and others
// pull the same image, the caller has proved nothing of it: the registry is asked again, for the manifest, which it refuses.
// Nor does the yes to the digest renew the proof where the rule lets everybody have the image.
func TestRemovedAndPulledByOthersWhileTheRegistryIsAsked(t *testing.T) {
	for what, tc := range map[string]struct {
		rules string
		inner digest.Digest
		class failure.Class
	}{
		"manifest": {`policy = "IfDigestChanged"`, "", failure.Forbidden},
		"index":    {`policy = "IfDigestChanged"`, digest.FromString("of this platform"), failure.Forbidden},
		"anybody":  {"policy = \"IfDigestChanged\"\naccess = \"Any\"", "", failure.None},
	} {
		n := &node{record: cachedImage(first, now), remote: first, manifest: tc.inner, quarantined: true}
		n.onCheck = func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.checks > 1 {
				return
			}
			n.record = cachedImage(first, now)
			n.record.CreatedAt = now
			n.record.Access = map[store.Fingerprint]store.Proof{bob: {At: now, By: "registry.test"}}
		}
		o, err := n.engine(rule(tc.rules)).Ensure(t.Context(), n.request(nil))
		if o.Class != tc.class || (err == nil) != (tc.class == failure.None) {
			t.Errorf("%s: %s (%s), %v, after %d reads of the manifest", what, o.Kind, o.Reason, err, n.manifestsRead)
		}
		if slices.Contains(n.proved, alice) {
			t.Errorf("%s: alice has a proof", what)
		}
	}
}
