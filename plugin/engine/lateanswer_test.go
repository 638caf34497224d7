// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// slowSnapshotter is the runtime of a handler whose snapshotter takes two minutes to unpack the image.
type slowSnapshotter struct{ *node }

func (s slowSnapshotter) Complete(ctx context.Context, target ocispec.Descriptor, plan *pwtransfer.Plan) error {
	time.Sleep(2 * time.Minute)
	return s.node.Complete(ctx, target, plan)
}

// onStore has the engine go by a real store, and by the clock.
func onStore(e *Engine, s *store.Store) {
	e.Records, e.Marks, e.Proofs, e.Observe, e.Now = s, s, s, nil, time.Now
}

// othersHaveIt has only one snapshotter lack the image, of the request that has looked before.
func (n *node) othersHaveIt() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.packed = false
}

// fall has all hosts fail.
func (n *node) fall() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checkFails = failure.Unreachable
}

// TestLateAnswerLeavesLaterWords holds that a request which acts on its answer minutes later, since its
// snapshotter takes so long, or the manifest that it has to be delivered comes so slowly, takes nothing back
// that was said to another request meanwhile: when all hosts fail, ages count from the last word.
func TestLateAnswerLeavesLaterWords(t *testing.T) {
	for what, tc := range map[string]struct {
		slow, bound string
		read        bool // its manifest comes slowly
		mirror      bool // answers the other request
	}{
		"check":               {slow: "# none", bound: `max_stale = "150s"`},
		"check, read":         {slow: `resolve_from = "Origin"`, bound: `max_stale = "150s"`, read: true},
		"proof":               {slow: "# none", bound: `access_ttl = "150s"`},
		"mirror's proof":      {slow: `resolve_from = "Origin"`, bound: `access_ttl = "150s"`, mirror: true},
		"mirror's check":      {slow: `resolve_from = "Origin"`, bound: `max_stale = "150s"`, mirror: true},
		"mirror's check read": {slow: `resolve_from = "Origin"`, bound: `max_stale = "150s"`, read: true, mirror: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := cachedImage(first, time.Now())
				if tc.mirror {
					record.Verified.By = "mirror.test"
					record.Access[alice] = store.Proof{At: record.Verified.At, By: "mirror.test"}
				}
				n := &node{remote: first, record: record, packed: !tc.read}
				ctx, s := storeOf(t, record.State)
				e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"slow\"]\npolicy = \"IfDigestChanged\"\n" + tc.slow + "\n" +
					rule(`policy = "IfDigestChanged"`, tc.bound))
				onStore(e, s)
				if tc.mirror {
					e.Registry = mirrorFirst{n}
				}
				slow, other := n.request(nil), n.request(nil)
				slow.PodNamespace, slow.Runtime = "slow", slowSnapshotter{n}
				if tc.read {
					slow.Caller = bob // who has proved nothing
					n.onRead = func() error { time.Sleep(2 * time.Minute); return nil }
				}
				done := make(chan Outcome, 1)
				go func() { o, _ := e.Ensure(ctx, slow); done <- o }()
				time.Sleep(time.Minute)
				n.othersHaveIt()
				if o, err := e.Ensure(ctx, other); o.Kind != Unchanged {
					t.Fatalf("the other: %s (%s), %v", o.Kind, o.Reason, err)
				}
				if o := <-done; o.Kind != Unchanged {
					t.Fatalf("the slow one: %s (%s), %v", o.Kind, o.Reason, o.Err)
				}
				n.fall()
				time.Sleep(time.Minute)
				if o, err := e.Ensure(ctx, other); o.Kind != UsedCached {
					t.Errorf("two minutes after a yes, under %s: %s (%s), %v", tc.bound, o.Kind, o.Reason, err)
				}
			})
		})
	}
}

// TestLateAnswerLeavesWordsByOtherNames holds the same of what another tag was told, or the digest itself: their
// record of repository@digest is one.
func TestLateAnswerLeavesWordsByOtherNames(t *testing.T) {
	canonical := repository + "@" + first.Digest.String()
	byDigest := policy.Image{Repository: repository, Digest: first.Digest.String()}
	for what, byTag := range map[string]bool{"another tag": true, "the digest": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := cachedImage(first, time.Now())
				n := &node{remote: first, record: record, packed: true}
				ctx, s := storeOf(t, record.State, repository+":2")
				e := n.engine(rule(`policy = "IfDigestChanged"`, `access_ttl = "150s"`))
				onStore(e, s)
				slow, other, third := n.request(nil), n.request(nil), n.request(nil)
				slow.PodNamespace, slow.Caller = "slow", bob // who has proved nothing, and reads the manifest
				var read atomic.Bool
				n.onRead = func() error {
					if read.CompareAndSwap(false, true) {
						time.Sleep(2 * time.Minute)
					}
					return nil
				}
				third.Name, third.Image = canonical, byDigest
				if other.Name, other.Image = canonical, byDigest; byTag {
					other.Name, other.Image = repository+":2", policy.Image{Repository: repository, Tag: "2"}
				} else { // a digest is asked for by who has proved nothing
					other.Caller, third.Caller = bob, bob
				}
				done := make(chan struct{})
				go func() { defer close(done); _, _ = e.Ensure(ctx, slow) }()
				time.Sleep(time.Minute)
				n.othersHaveIt()
				if o, err := e.Ensure(ctx, other); err != nil {
					t.Fatalf("the other: %s (%s), %v", o.Kind, o.Reason, err)
				}
				<-done
				n.fall()
				time.Sleep(time.Minute)
				if o, err := e.Ensure(ctx, third); err != nil {
					t.Errorf("two minutes after a yes: %s (%s), %v", o.Kind, o.Reason, err)
				}
			})
		})
	}
}

// TestLateAnswerBesideAFallback holds that an image which was not stale is marked as used without a check if, and
// only if, that was after the last check: whichever of two requests takes so long to unpack it.
func TestLateAnswerBesideAFallback(t *testing.T) {
	for what, tc := range map[string]struct {
		before, after failure.Class
		inNeed        bool // a mirror answers in the place of the registry, before
		want          store.StaleReason
	}{
		"a late check":           {failure.None, failure.Unreachable, false, "unreachable"},
		"a late fallback":        {failure.Unreachable, failure.None, false, ""},
		"a mirror's late answer": {failure.None, failure.None, true, ""},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := cachedImage(first, time.Now())
				n := &node{remote: first, record: record, packed: true, checkFails: tc.before, inNeed: tc.inNeed}
				ctx, s := storeOf(t, record.State)
				e := n.engine(rule(`policy = "IfDigestChanged"`, `resolve_from = "OriginThenMirrors"`))
				onStore(e, s)
				slow, other := n.request(nil), n.request(nil)
				slow.PodNamespace, slow.Runtime = "slow", slowSnapshotter{n}
				done := make(chan struct{})
				go func() { defer close(done); _, _ = e.Ensure(ctx, slow) }()
				time.Sleep(time.Minute)
				n.mu.Lock()
				n.packed, n.checkFails, n.inNeed = false, tc.after, false
				n.mu.Unlock()
				if o, err := e.Ensure(ctx, other); err != nil {
					t.Fatalf("the other: %s (%s), %v", o.Kind, o.Reason, err)
				}
				<-done
				if r, err := s.Get(ctx, name); err != nil || r.Stale.Reason != tc.want || r.MirrorDigest != "" {
					t.Errorf("stale %+v, mirror digest %q, %v; want %q", r.Stale, r.MirrorDigest, err, tc.want)
				}
			})
		})
	}
}

// marksAfter does something between the read of a record and the mark of a pull, or of a comparison.
type marksAfter struct {
	Marks
	first func()
}

func (m marksAfter) MarkPulled(ctx context.Context, target digest.Digest, state func() store.State, names ...string) {
	m.first()
	m.Marks.MarkPulled(ctx, target, state, names...)
}

// TestRefusalAtTheEndOfAComparison holds that no mark brings back what a mirror has given, and takes back
// at the moment at which the mark is made.
func TestRefusalAtTheEndOfAComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := cachedImage(first, time.Now())
		record.Verified.By = "mirror.test"
		record.Access[alice] = store.Proof{At: record.Verified.At, By: "mirror.test"}
		c := newComparison(t, record, "resolve_from = \"Origin\"")
		c.engine.Registry = mirrorFirst{c.node}
		other, _ := c.engine.begin(c.ctx, c.other)
		refused := false
		c.engine.Marks = marksAfter{c.store, func() {
			refused = true
			if err := c.engine.revokeIfDenied(c.ctx, other, nil, []store.Refusal{{Host: "mirror.test"}}); err != nil {
				t.Error(err)
			}
		}}
		end := c.begin(t)
		c.wantConfirmed(t, "mirror.test") // after a minute
		if o := end(); o.Kind != Pulled || o.Host != "registry.test" || !refused {
			t.Fatalf("the comparison: %s (%s), %v", o.Kind, o.Reason, o.Err)
		}
		r, err := c.store.Get(c.ctx, name)
		if got := r.Proofs(alice); err != nil || len(got) != 1 || got[0].By != "registry.test" {
			t.Errorf("alice's proofs: %v, %v", got, err)
		}
	})
}
