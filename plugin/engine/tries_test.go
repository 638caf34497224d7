// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// Requests of a namespace share the refusal of a try that began while they waited, whatever
// another namespace with the same credentials has tried in between; what is no refusal all
// share.
func TestTriesBesideAnotherNamespace(t *testing.T) {
	for class, all := range map[failure.Class]bool{failure.Forbidden: false, failure.Unavailable: true} {
		e := new(Engine)
		of := func(namespace store.Fingerprint) *try {
			y := e.newTry(task{Request: Request{Name: name, Caller: alice, PodNamespace: namespace}}, first.Digest)
			t.Cleanup(y.leave)
			return y
		}
		a, b, waiting := of("a"), of("b"), of("a")
		failed := map[*try]*resolver.Error{}
		for _, y := range []*try{a, b} {
			y.begin()
			failed[y] = failureOf(name, class)
			y.fail(failed[y])
			if late := of("a"); late.shared() != nil {
				t.Errorf("%s: shared with a request that came later", class)
			}
		}
		want := failed[a]
		if all {
			want = failed[b] // the last one
		}
		if got := waiting.shared(); got != want {
			t.Errorf("%s: shared %v", class, got)
		}
		if got := of("c").shared(); got != nil {
			t.Errorf("%s: shared %v with a namespace that came later", class, got)
		}
	}
}
