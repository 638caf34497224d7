// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/isolation"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/store"
	"github.com/pullwarden/pullwarden/store/content"
)

// The images of a repository and caller take turns when they are completed, and those of others
// have a scope of their own.
func TestScopeOfCompletion(t *testing.T) {
	scope := func(repository string, caller store.Fingerprint, credentialHost string) isolation.Scope {
		req := Request{Subject: policy.Subject{Image: policy.Image{Repository: repository}}, Name: repository + ":1", Caller: caller, CredentialHost: credentialHost}
		return new(Engine).completion(t.Context(), task{Request: req}, req.Name, store.Record{}).Scope
	}
	base := scope("r.test/app", alice, "")
	if got := scope("R.test:443/app", alice, ""); got != base {
		t.Errorf("another spelling of the repository: %v, want %v", got, base)
	}
	seen := map[isolation.Scope]string{{}: "pulls without a scope", base: "r.test/app"}
	for _, other := range []struct {
		what, repository string
		caller           store.Fingerprint
		credentialHost   string
	}{
		{"another repository", "r.test/other", alice, ""},
		{"another registry", "other.test/app", alice, ""},
		{"another caller", "r.test/app", bob, ""},
		{"no credentials", "r.test/app", store.Anonymous, ""},
		{"a caller that is not known", "r.test/app", "", ""},
		{"such a caller again", "r.test/app", "", ""},
		{"credentials for one host", "r.test/app", alice, "r.test"},
	} {
		got := scope(other.repository, other.caller, other.credentialHost)
		if with, shared := seen[got]; shared {
			t.Errorf("%s shares its scope with %s", other.what, with)
		}
		seen[got] = other.what
	}
}

// completions has the plan by which an image was completed, the state of a record that is made so, and whether it may be
// made at the end.
type completions struct {
	*node
	meanwhile func() // while it is unpacked
	name      string
	size      int64 // of the target
	state     store.State
	err       error
}

func (c *completions) Complete(ctx context.Context, target ocispec.Descriptor, plan *transfer.Plan) error {
	if c.meanwhile != nil {
		c.meanwhile()
	}
	c.name, c.size, c.state = plan.Reference, target.Size, plan.State(target.Digest, store.State{})
	c.err = errors.Join(c.err, plan.Verify(ctx, target))
	return nil
}

// An image whose tag somebody pulls is completed by its digest, and the pin stays with the tag.
func TestCompletionBesideAPull(t *testing.T) {
	for pulled, want := range map[bool]string{false: name, true: "registry.test/app@" + first.Digest.String()} {
		r := cachedImage(first, now)
		r.Pin = store.Pin{Own: true, Used: now}
		c := &completions{node: &node{record: r, remote: first, packed: true}}
		e := c.engine(rule(`policy = "IfNotPresent"`, `pin = true`))
		if pulled {
			_, unlock, _ := e.turns.TryLock(t.Context(), name)
			defer unlock()
		}
		req := c.request(nil)
		req.Runtime = c
		if _, err := e.Ensure(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if c.name != want || c.state.Pin.Own == pulled || !c.state.Restricted || c.err != nil {
			t.Errorf("pulled %v: completed by %s, with %+v, %v", pulled, c.name, c.state, c.err)
		}
	}
}

// knowsSize is a node whose content has a size of its own, whatever records claim.
type knowsSize struct {
	*completions
	bytes int64
}

func (k knowsSize) Runnable(ctx context.Context, target ocispec.Descriptor, snapshotter string) (content.Image, error) {
	image, err := k.completions.Runnable(ctx, target, snapshotter)
	image.Size = k.bytes
	return image, err
}

// What is there is completed as what it is, however large a mirror has claimed it to be when the record was made: whether nobody is asked,
// or a registry, after which the record is read again. So it is in what image verifiers are asked about.
func TestCompletionByTheSizeOfTheContent(t *testing.T) {
	for directives, remote := range map[string]ocispec.Descriptor{
		`policy = "IfNotPresent"`: first, `policy = "IfDigestChanged"`: first,
		tenSeconds: second, // before the pull
	} {
		k := knowsSize{&completions{node: &node{record: cachedImage(first, now), remote: remote, packed: true}}, first.Size + 7}
		e := k.engine(rule(directives))
		e.Content = k
		e.VerifyImage = func(_ context.Context, _ string, target ocispec.Descriptor) error {
			if target.Size != k.bytes {
				t.Errorf("%v: verifiers are told of %d bytes, want %d", directives, target.Size, k.bytes)
			}
			return nil
		}
		req := k.request(nil)
		req.Runtime = k
		if o, err := e.Ensure(t.Context(), req); err != nil || k.name == "" || k.size != k.bytes {
			t.Errorf("%v: %s, %v; completed %q of %d bytes, want %d", directives, o.Kind, err, k.name, k.size, k.bytes)
		}
	}
}

// An image that is completed gets no name back that a pull of containerd's own has given to another one meanwhile.
func TestCompletionTakesNoNameBack(t *testing.T) {
	c := &completions{node: &node{record: cachedImage(first, now), remote: first, packed: true}}
	c.meanwhile = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.record = cachedImage(second, now)
	}
	req := c.request(nil)
	req.Runtime = c
	_, _ = c.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), req)
	if !errors.Is(c.err, transfer.ErrGone) {
		t.Errorf("the end of the completion by %s: %v", c.name, c.err)
	}
}

// sharing are completions that know which records have been made of another.
type sharing struct {
	*completions
	made []string
}

func (s *sharing) ShareProofs(_ context.Context, _ digest.Digest, _, to string) error {
	s.made = append(s.made, to)
	return nil
}

// Where another pull takes the name while an imported image is completed, that image is not used by who has proved nothing:
// the request begins anew. What it leaves is the record by digest, which says as little as that of the name did.
func TestOpenImageWhoseNameIsTakenWhileItIsCompleted(t *testing.T) {
	n := open()
	n.packed, n.remote, n.forgotten = true, second, true
	s := &sharing{completions: &completions{node: n}}
	s.meanwhile = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.record = restricted(now, alice)
		s.record.Target = second
	}
	e := s.engine(rule(`policy = "IfNotPresent"`))
	e.Proofs = s
	req := s.request(nil)
	req.Runtime, req.Caller = s, bob
	o, err := e.Ensure(t.Context(), req)
	if err != nil || o.Kind != Unchanged || o.Digest != second.Digest || !slices.Contains(s.made, repository+"@"+first.Digest.String()) {
		t.Errorf("got %s (%s) of %s, %v; made are %v", o.Kind, o.Reason, o.Digest, err, s.made)
	}
}
