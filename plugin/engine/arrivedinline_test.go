// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

const carol store.Fingerprint = "carol"

// aLine is a node on which the image changes. Alice's pod pulls it for six seconds. Bob's, of other credentials, has the
// next turn of the name, and is not given the manifest before hang is closed.
type aLine struct {
	*node
	engine *Engine
	hang   chan struct{}
	reads  atomic.Int32
	onNext func() // at each read of a manifest after bob's
}

func newLine(t *testing.T, directives ...string) *aLine {
	t.Helper()
	l := &aLine{node: changedNode(), hang: make(chan struct{}), onNext: func() {}}
	l.record.Access[carol] = l.record.Access[alice]
	l.pullTakes = 6 * time.Second
	l.onRead = func() error {
		if l.reads.Add(1) == 1 {
			select {
			case <-l.hang:
			case <-time.After(time.Hour):
			}
		} else {
			l.onNext()
		}
		return nil
	}
	l.engine = l.node.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" + rule(append(directives, tenSeconds)...))
	l.engine.Now = time.Now
	return l
}

// begin has alice's pod and bob's come, and then the one of that request, whose pull stands behind bob's.
func (l *aLine) begin(t *testing.T, third Request) <-chan arrival {
	t.Helper()
	one := arrive(t, l.engine, l.request(nil))
	last := l.behindBob(t, third)
	if a := <-one; a.outcome.Kind != Pulled {
		t.Fatalf("the first pod: %s (%s)", a.outcome.Kind, a.outcome.Reason)
	}
	return last
}

// behindBob has bob's pod come, a second later, and then the one of that request.
func (l *aLine) behindBob(t *testing.T, third Request) <-chan arrival {
	t.Helper()
	time.Sleep(time.Second)
	bobs := l.from("b", bob)
	bobs.Namespace = "b"
	arrive(t, l.engine, bobs)
	time.Sleep(time.Second)
	return arrive(t, l.engine, third)
}

// A pod whose pull stands in the line of the name, behind one that hangs, starts from the image that it waits for once its
// pull_deadline is over, where the pull of others has brought that.
func TestArrivedImageBehindAPullThatHangs(t *testing.T) {
	for what, tc := range map[string]struct {
		caller     store.Fingerprint
		directives string
	}{
		"of the same secret":    {caller: alice},
		"who has not proved it": {caller: carol},
		"by its namespace":      {caller: alice, directives: byNamespace},
		"under Strict":          {caller: alice, directives: `access = "Strict"`},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, tc.directives)
				if tc.directives == byNamespace {
					l.record.Access["c"] = l.record.Access[alice]
				}
				waits := l.begin(t, l.from("c", tc.caller))
				if a := <-waits; a.outcome.Kind != Unchanged || a.outcome.Digest != second.Digest || a.took != 10*time.Second {
					t.Errorf("%s (%s) of %s after %s, %v", a.outcome.Kind, a.outcome.Reason, a.outcome.Digest, a.took, a.outcome.Err)
				}
				if len(l.engine.BackgroundPulls()) != 0 || len(l.engine.pulls.all) != 0 {
					t.Error("its own pull still stands in the line")
				}
				close(l.hang)
			})
		})
	}
}

// Nothing is asked for an image that is there, and was confirmed to its caller: no registry that is down by then fails the pod.
func TestArrivedImageOfARegistryThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, `on.unreachable = "Fail"`)
		waits := l.begin(t, l.from("c", alice))
		l.mu.Lock()
		l.checkFails, l.pullFails = failure.Unreachable, failure.Unreachable
		l.mu.Unlock()
		if a := <-waits; a.outcome.Kind != Unchanged || l.checks != 3 || l.reads.Load() != 1 {
			t.Errorf("%s (%s) after %s, %d checks, %d reads: %v", a.outcome.Kind, a.outcome.Reason, a.took, l.checks, l.reads.Load(), a.outcome.Err)
		}
		close(l.hang)
	})
}

// A request whose deadline is over looks for the image that others bring then, too: where no place in the background is free.
func TestArrivedImageOfWhoWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		l.pullTakes = 15 * time.Second
		busy := make([]*sharedPull, maxShare) // pulls of other names
		for i := range busy {
			busy[i], _ = l.engine.pulls.join(pullKey{name: string(rune('a' + i))}, func(*sharedPull) bool { return true })
			busy[i].cancel = func(error) {}
			if kept := l.engine.pulls.keep(busy[i], place{registry: "registry.test"}); !kept {
				t.Fatal("not kept")
			}
		}
		if a := <-l.begin(t, l.from("c", alice)); a.outcome.Kind != Unchanged || a.took > 13*time.Second+lookInterval {
			t.Errorf("%s (%s) after %s", a.outcome.Kind, a.outcome.Reason, a.took)
		}
		close(l.hang)
	})
}

// So does one whose image has come between its look for that and its look for the cached one.
func TestImageThatArrivesBetweenTwoLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		begun := time.Now()
		l.pullTakes = 12*time.Second + time.Millisecond
		looks := 0
		l.onLook = func(context.Context) {
			if time.Since(begun) == 12*time.Second { // the pod's deadline
				if looks++; looks == 2 {
					time.Sleep(2 * time.Millisecond)
				}
			}
		}
		arrive(t, l.engine, l.request(map[string]string{"pullwarden.io/pull-deadline": "1h"}))
		if a := <-l.behindBob(t, l.from("c", alice)); a.outcome.Kind != Unchanged || a.took > 10*time.Second+2*lookInterval {
			t.Errorf("%s (%s) after %s", a.outcome.Kind, a.outcome.Reason, a.took)
		}
		close(l.hang)
	})
}

// The pull of a pod gets its turn, and ends, while the pod reads the manifest of the image that has arrived. A denial after that
// leaves it no proof, and no session is closed that is still read by.
func TestDenialAfterThePullOfAnArrivedImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t)
		sessions := &countingSessions{node: l.node}
		l.engine.Registry = sessions
		reading := make(chan struct{})
		l.onNext = func() {
			if l.reads.Load() == 2 { // the pod's; the next one is its pull's
				<-reading
			}
		}
		waits := l.begin(t, l.from("c", carol))
		time.Sleep(7 * time.Second) // its deadline is over
		close(l.hang)
		synctest.Wait()
		if len(l.engine.pulls.all) != 0 || !slices.Contains(l.proved, carol) {
			t.Error("the pull of the pod has not ended with a proof")
		}
		l.mu.Lock()
		l.checkFails, l.proved = failure.Forbidden, nil
		l.mu.Unlock()
		if sessions.open.Load() != 1 {
			t.Errorf("%d sessions are open, want that of the pod", sessions.open.Load())
		}
		refused := l.from("b", carol)
		refused.Namespace = "b"
		if o, _ := l.engine.Ensure(t.Context(), refused); o.Kind != Failed {
			t.Fatal(o.Kind)
		}
		close(reading)
		a := <-waits
		synctest.Wait()
		if slices.Contains(l.proved, carol) {
			t.Errorf("%s (%s), with a proof that was refused meanwhile", a.outcome.Kind, a.outcome.Reason)
		}
		if sessions.open.Load() != 0 || l.engine.denials.logs.Len() != 0 || l.engine.newest.logs.Len() != 0 {
			t.Errorf("%d sessions are left, %d watches, %d questions", sessions.open.Load(), l.engine.denials.logs.Len(), l.engine.newest.logs.Len())
		}
	})
}

// What a pull is refused is to the request beside it a denial, though not to the pull itself.
func TestSharedCheckOfWhoIsRefused(t *testing.T) {
	n := changedNode()
	e := n.engine(rule(tenSeconds))
	pod := task{Request: n.request(nil)}
	k := checked{watch: e.watchDenials(pod), question: e.newest.question(name, false)}
	pull := k.share(k.course)
	if err := e.revokeIfDenied(t.Context(), pod, pull.watch, []store.Refusal{{Host: "registry.test", Origin: true}}); err != nil {
		t.Fatal(err)
	}
	proof := store.Proof{At: now, By: "registry.test"}
	if pull.watch.ended(alice, proof, repository) || !k.watch.ended(alice, proof, repository) {
		t.Errorf("the proof has ended for the pull: %v, for the request: %v", pull.watch.ended(alice, proof, repository), k.watch.ended(alice, proof, repository))
	}
	k.end()
	if e.denials.logs.Len() == 0 || e.newest.logs.Len() == 0 {
		t.Error("the check has ended for the pull")
	}
	pull.end()
	if e.denials.logs.Len() != 0 || e.newest.logs.Len() != 0 {
		t.Error("the check has not ended")
	}
}

// countingSessions counts the sessions that have not been closed.
type countingSessions struct {
	*node
	open atomic.Int32
}

func (r *countingSessions) Open(ctx context.Context, q resolver.Query) (resolver.Session, error) {
	s, err := r.node.Open(ctx, q)
	r.open.Add(1)
	return countedSession{s, &r.open}, err
}

type countedSession struct {
	resolver.Session
	open *atomic.Int32
}

func (s countedSession) Close() { s.open.Add(-1) }
