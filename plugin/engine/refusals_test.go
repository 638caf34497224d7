// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

func TestRefusals(t *testing.T) {
	var r refusals
	key := refusalKey{repository, alice}
	r.refuse(key) // nobody watches
	one, two := r.watch(key), r.watch(key)
	other := r.watch(refusalKey{repository, bob})
	r.refuse(key)
	if !one.refused() || !two.refused() || other.refused() {
		t.Errorf("refused: %v, %v, and another caller %v", one.refused(), two.refused(), other.refused())
	}
	one.again()
	three := r.watch(key)
	if one.refused() || !two.refused() || three.refused() {
		t.Errorf("afterwards: %v, %v, %v", one.refused(), two.refused(), three.refused())
	}
	for _, w := range []*refusalWatch{one, two, three, other} {
		w.end()
	}
	if len(r.all) != 0 {
		t.Errorf("%d are left", len(r.all))
	}
}

// A pull that takes long is no proof any more when the registry has refused
// its caller since, for whatever tag.
func TestRefusalDuringAPull(t *testing.T) {
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
			req.Name, req.Request = repository+":2", policy.Request{Image: policy.Image{Repository: repository, Tag: "2"}}
			if _, err := e.Ensure(t.Context(), req); err == nil {
				t.Error("the second request is not refused")
			}
		}
		o, err := e.Ensure(t.Context(), n.request(nil))
		if err != nil || o.Result != Pulled {
			t.Fatalf("%s: got %s, %v", what, o.Result, err)
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
