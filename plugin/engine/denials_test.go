// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

func TestDenials(t *testing.T) {
	var d denials
	key := denialKey{repository, alice}
	d.deny(key, store.Refusal{Host: "registry.test"}) // nobody watches
	one, two := d.watch(key), d.watch(key)
	other := d.watch(denialKey{repository, bob})
	refusal := store.Refusal{Host: "registry.test", Origin: true}
	d.deny(key, refusal)
	if len(one.refusals()) == 0 || len(two.refusals()) == 0 || len(other.refusals()) > 0 {
		t.Errorf("refused: %v, %v, and another caller %v", one.refusals(), two.refusals(), other.refusals())
	}
	if got := one.refusals(); !slices.Equal(got, []store.Refusal{refusal}) {
		t.Errorf("refused by %v", got)
	}
	one.restart()
	three := d.watch(key)
	if len(one.refusals()) > 0 || len(two.refusals()) == 0 || len(three.refusals()) > 0 {
		t.Errorf("afterwards: %v, %v, %v", one.refusals(), two.refusals(), three.refusals())
	}
	for _, w := range []*denialWatch{one, two, three, other} {
		w.end()
	}
	if d.logs.Len() != 0 {
		t.Errorf("%d are left", d.logs.Len())
	}
}

// A refusal that a request meets with itself does not hide that another request has
// met with it before, or meets with it afterwards.
func TestOwnDenialHidesNoOther(t *testing.T) {
	var d denials
	key := denialKey{repository, alice}
	refusal := store.Refusal{Host: "registry.test", Origin: true}
	own := func(w *denialWatch) { w.deny(refusal) }
	other := func(*denialWatch) { d.deny(key, refusal) }
	for what, tc := range map[string]struct {
		steps []func(*denialWatch)
		want  int
	}{
		"own":             {[]func(*denialWatch){own}, 0},
		"own twice":       {[]func(*denialWatch){own, own}, 0},
		"another's first": {[]func(*denialWatch){other, own}, 1},
		"another's last":  {[]func(*denialWatch){own, other}, 1},
		"in between":      {[]func(*denialWatch){own, other, own}, 1},
	} {
		w, watching := d.watch(key), d.watch(key)
		for _, step := range tc.steps {
			step(w)
		}
		if got := len(w.refusals()); got != tc.want {
			t.Errorf("%s: %d refusals, want %d", what, got, tc.want)
		}
		if len(watching.refusals()) != 1 {
			t.Errorf("%s: who watches sees %d refusals", what, len(watching.refusals()))
		}
		w.end()
		watching.end()
	}
}

// A pull that takes long is no proof any more when the registry has refused
// its caller since, for whatever tag.
func TestDenialDuringAPull(t *testing.T) {
	for what, refuse := range map[string]bool{"refused meanwhile": true, "not refused": false} {
		n := &node{remote: first}
		e := n.engine("# none")
		n.onPull = func() {
			if !refuse {
				return
			}
			n.mu.Lock()
			n.checkFails = failure.Forbidden
			n.mu.Unlock()
			req := n.request(nil)
			req.Name, req.Subject = repository+":2", policy.Subject{Image: policy.Image{Repository: repository, Tag: "2"}}
			if _, err := e.Ensure(t.Context(), req); err == nil {
				t.Error("the second request is not refused")
			}
		}
		o, err := e.Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != Pulled {
			t.Fatalf("%s: got %s, %v", what, o.Kind, err)
		}
		want := map[bool][]store.Fingerprint{true: {alice, alice}}[refuse]
		if !slices.Equal(n.revoked, want) {
			t.Errorf("%s: revoked %v, want %v", what, n.revoked, want)
		}
		if _, proved := n.record.Access[alice]; proved == refuse {
			t.Errorf("%s: proved %v", what, proved)
		}
	}
}

// A denial takes the caller's proof away even if the caller has left.
func TestDenialCountsWithoutItsCaller(t *testing.T) {
	for _, class := range []failure.Class{failure.Unauthorized, failure.Forbidden} {
		ctx, leave := context.WithCancel(t.Context())
		n := &node{record: restricted(now, alice), checkFails: class, onCheck: leave}
		if _, err := n.engine(rule(`policy = "Always"`)).Ensure(ctx, n.request(nil)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", class, err)
		}
		if !slices.Equal(n.revoked, []store.Fingerprint{alice}) {
			t.Errorf("%s: revoked %v", class, n.revoked)
		}
	}
}

// An answer without credentials is no proof for everybody any more when the
// registry has refused somebody without credentials since.
func TestDenialOfEverybodyDuringAPull(t *testing.T) {
	n := &node{remote: first, anonymous: true}
	e := n.engine("# none")
	n.onPull = func() {
		n.mu.Lock()
		n.checkFails = failure.Forbidden
		n.mu.Unlock()
		req := n.request(nil)
		req.Caller, req.Name = store.Anonymous, repository+":2"
		if _, err := e.Ensure(t.Context(), req); err == nil {
			t.Error("the second request is not refused")
		}
	}
	if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Pulled {
		t.Fatalf("got %s, %v", o.Kind, err)
	}
	if _, proved := n.record.Access[store.Anonymous]; proved {
		t.Errorf("everybody may have it: %v, revoked %v", n.record.Access, n.revoked)
	}
	if _, proved := n.record.Access[alice]; !proved {
		t.Errorf("alice has lost her proof: %v", n.record.Access)
	}
}

// A denial counts that comes after the registry has answered for the tag, and
// before it is asked about the cached image.
func TestDenialBetweenTwoQuestions(t *testing.T) {
	n := &node{remote: second, record: restricted(now, bob), forgotten: true}
	e := n.engine(rule(`policy = "IfNotPresent"`))
	n.onOpen = func() {
		if n.checks == 1 {
			n.onOpen = nil
			if err := e.revokeIfDenied(t.Context(), task{Request: n.request(nil)}, nil, []store.Refusal{{Host: "registry.test", Origin: true}}); err != nil {
				t.Error(err)
			}
		}
	}
	if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Pulled {
		t.Fatalf("got %s, %v", o.Kind, err)
	}
	if _, proved := n.record.Access[alice]; proved {
		t.Errorf("alice has a proof that was refused: %v", n.record.Access)
	}
}

// The record of a pull that takes long never has a proof that was refused since:
// a crash would leave it there.
func TestDenialBeforeAPullIsStored(t *testing.T) {
	for what, host := range map[string]string{"by the giver": "registry.test", "by a mirror": "mirror.test"} {
		n := &node{remote: first}
		e := n.engine("# none")
		n.onPull = func() {
			if err := e.revokeIfDenied(t.Context(), task{Request: n.request(nil)}, nil, []store.Refusal{{Host: host}}); err != nil {
				t.Error(err)
			}
		}
		stored := false
		n.onStore = func(s *store.State) { _, stored = s.Access[alice] }
		if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Pulled {
			t.Fatalf("%s: got %s, %v", what, o.Kind, err)
		}
		if stored != (host == "mirror.test") {
			t.Errorf("%s: a proof is stored: %v", what, stored)
		}
	}
}

// A caller who is denied while the cached image is made ready gets no proof by the
// check that confirmed it, not even for a moment.
func TestDenialBeforeAnImageIsConfirmed(t *testing.T) {
	for what, refuse := range map[string]bool{"refused meanwhile": true, "not refused": false} {
		n := &node{record: restricted(now, bob), remote: first}
		e := n.engine("# none")
		req := n.request(nil)
		e.VerifyImage = func(ctx context.Context, _ string, _ ocispec.Descriptor) error {
			if !refuse {
				return nil
			}
			return e.revokeIfDenied(ctx, task{Request: req}, nil, []store.Refusal{{Host: "registry.test", Origin: true}})
		}
		if o, err := e.Ensure(t.Context(), req); err != nil || o.Kind != Unchanged {
			t.Fatalf("%s: got %s, %v", what, o.Kind, err)
		}
		if proved := slices.Contains(n.proved, alice); proved == refuse {
			t.Errorf("%s: proved %v", what, n.proved)
		}
	}
}

// An answer renews no proof that was refused since the request began, to whomever.
func TestRefusedProofIsNotRenewed(t *testing.T) {
	const registry, mirror = "registry.test", "mirror.test"
	for what, tc := range map[string]struct {
		has              held
		refused          store.Fingerprint
		by               store.Refusal
		alice, everybody bool
	}{
		"nobody":                   {has: held{[]string{registry}, []string{mirror}}, alice: true, everybody: true},
		"the caller":               {has: held{holder: []string{mirror}}, refused: alice, by: store.Refusal{Host: mirror}},
		"the caller, by another":   {has: held{holder: []string{registry}}, refused: alice, by: store.Refusal{Host: mirror}, alice: true},
		"the caller, of everybody": {has: held{anyone: []string{registry}}, refused: alice, by: store.Refusal{Host: mirror}, alice: true, everybody: true},
		"everybody":                {has: held{anyone: []string{registry}}, refused: store.Anonymous, by: store.Refusal{Host: registry, Origin: true}},
	} {
		var d denials
		watches := denialWatches{d.watch(denialKey{repository, alice}), d.watch(denialKey{repository, store.Anonymous})}
		d.deny(denialKey{repository, tc.refused}, tc.by)
		watches.restart()
		a := answer{repository: repository, held: tc.has, watch: watches, verified: store.Verified{By: registry}}
		if got, all := a.renews(alice), a.renews(store.Anonymous); got != tc.alice || all != tc.everybody {
			t.Errorf("%s refused: renewed for alice %v, for everybody %v", what, got, all)
		}
		watches.end()
	}
}
