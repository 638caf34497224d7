// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

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
			y.begin(needs{true, true})
			failed[y] = failureOf(name, class)
			y.fail(failed[y])
			if late := of("a"); late.shared(needs{true, true}) != nil {
				t.Errorf("%s: shared with a request that came later", class)
			}
		}
		want := failed[a]
		if all {
			want = failed[b] // the last one
		}
		if got := waiting.shared(needs{true, true}); got != want {
			t.Errorf("%s: shared %v", class, got)
		}
		if got := of("c").shared(needs{true, true}); got != nil {
			t.Errorf("%s: shared %v with a namespace that came later", class, got)
		}
	}
}

// Who finds the image on the node needs its manifest alone, and who has proved it needs only its
// content. Others need both: they share the failure to deliver the manifest, which they would meet first,
// and not that of layers alone.
func TestTriesByWhatTheyNeed(t *testing.T) {
	found, proved, both := needs{documents: true}, needs{content: true}, needs{true, true}
	for _, failed := range []needs{found, proved, both} {
		for _, waits := range []needs{found, proved, both} {
			e := new(Engine)
			of := func() *try {
				y := e.newTry(task{Request: Request{Name: name, Caller: alice}}, first.Digest)
				t.Cleanup(y.leave)
				return y
			}
			one, waiting := of(), of()
			one.begin(failed)
			one.fail(failureOf(name, failure.Unavailable))
			if got := waiting.shared(waits); (got != nil) != (waits == failed || failed == found && waits == both) {
				t.Errorf("%+v has failed, %+v is needed, shared %v", failed, waits, got)
			}
		}
	}
}

// slowManifests deliver no manifest for five minutes, and fail then.
type slowManifests struct {
	*node
	reads int
}

func (m *slowManifests) VerifyManifest(ctx context.Context, _ ocispec.Descriptor, _ transfer.Fetcher, _ func(digest.Digest) bool) error {
	select {
	case <-time.After(5 * time.Minute):
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	m.pullFails = failure.Unreachable
	return errTest
}

// A manifest that does not come, of an image that others have pulled meanwhile, holds up a
// line of requests who have to ask for it for its own time, not once for each of them.
func TestLineSharesAManifestThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: first, pullTakes: time.Minute}
		e := n.engine(rule(`policy = "Always"`))
		m := &slowManifests{node: n}
		e.Content, e.Observe = m, nil
		bobs := func() <-chan arrival {
			req := n.request(nil)
			req.Caller = bob
			defer time.Sleep(time.Second)
			return arrive(t, e, req)
		}
		one := arrive(t, e, n.request(nil))
		time.Sleep(time.Second)
		var line []<-chan arrival
		for range 6 {
			line = append(line, bobs())
		}
		if a := <-one; a.outcome.Kind != Pulled {
			t.Fatalf("who pulls: %s, %v", a.outcome.Kind, a.outcome.Err)
		}
		for i, l := range line {
			if a := <-l; a.outcome.Kind != Failed || a.outcome.Class != failure.Unreachable || a.took > 6*time.Minute {
				t.Errorf("%d: %s (%s) after %s", i, a.outcome.Kind, a.outcome.Class, a.took)
			}
		}
		if m.reads != 1 {
			t.Errorf("%d have asked for the manifest", m.reads)
		}
		// Who comes later asks by itself.
		if <-bobs(); m.reads != 2 {
			t.Errorf("afterwards, %d have asked for the manifest", m.reads)
		}
	})
}

// A request that its caller has left shares no failure, also where a mirror has refused it before:
// the registry, which it was about to take the image from, has not failed.
func TestLeftPullSharesNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: first, pullTakes: time.Minute, pullFails: failure.Forbidden}
		n.onPull = func() {
			if n.pulls > 1 { // the first one has been left
				n.pullFails = failure.None
			}
		}
		e := n.engine(rule(`policy = "Always"`))
		e.Observe = nil
		_, unlock, err := e.turns.Lock(t.Context(), name, 0) // somebody else's pull
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := e.Ensure(ctx, n.request(nil))
			left <- err
		}()
		time.Sleep(time.Second)
		next := arrive(t, e, n.request(nil))
		time.Sleep(time.Second)
		unlock()
		time.Sleep(time.Second)
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who has left: %v", err)
		}
		if a := <-next; a.outcome.Kind != Pulled || n.pulls != 2 {
			t.Errorf("the next one: %s (%s) after %d pulls: %v", a.outcome.Kind, a.outcome.Reason, n.pulls, a.outcome.Err)
		}
		if len(n.revoked) == 0 {
			t.Error("the refusal has ended no proof")
		}
	})
}
