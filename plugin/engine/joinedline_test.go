// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A pull in the background is not thrown away since two pods wait for the one of a digest that was pushed meanwhile, which
// waits for its turn: that one has brought nothing to the tag, and confirmed nothing.
func TestPullBesideOneThatIsJoinedInTheLine(t *testing.T) {
	for _, pods := range []int{1, 2} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := changedNode() // its pulls take a minute
				e := n.engine(rule(`policy = "IfDigestChanged"`, `pull_deadline = "1s"`))
				e.Now = time.Now
				<-arrive(t, e, n.request(nil))
				time.Sleep(10 * time.Second)
				n.push(image("third"))
				var all []<-chan arrival
				for range pods {
					all = append(all, arrive(t, e, n.request(nil)))
					time.Sleep(100 * time.Millisecond)
				}
				for _, a := range all {
					<-a
				}
				time.Sleep(60 * time.Second) // the first pull has ended, the other one has not
				synctest.Wait()
				n.mu.Lock()
				now := n.record.Target.Digest
				n.mu.Unlock()
				if now != second.Digest {
					t.Errorf("after its whole download the tag does not stand for the second image (still the first: %v)", now == first.Digest)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
			})
		})
	}
}

// A tag that is pushed more often than its image can be downloaded.
func TestTagThatIsPushedOften(t *testing.T) {
	for _, pods := range []int{1, 2} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := changedNode() // its pulls take a minute
				e := n.engine(rule(`policy = "IfDigestChanged"`, `pull_deadline = "1s"`))
				e.Now = time.Now
				var old atomic.Int64
				for i := range 40 {
					n.push(image(fmt.Sprint("v", i)))
					for range pods {
						a := arrive(t, e, n.request(nil))
						go func() {
							if o := (<-a).outcome; o.Digest == first.Digest {
								old.Store(int64(i))
							}
						}()
						time.Sleep(100 * time.Millisecond)
					}
					time.Sleep(45 * time.Second)
				}
				synctest.Wait()
				if old.Load() > 10 {
					t.Errorf("pods start from the image of half an hour ago, though %d downloads have ended", n.pulls)
				}
				time.Sleep(10 * time.Minute)
			})
		})
	}
}

// Another tenant's pod, which waits for the image that it was told, gets that, whoever waits behind it for a later one.
func TestPullOfAnotherTenantBesideOneThatIsJoined(t *testing.T) {
	for _, pods := range []int{1, 2} {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprint(pods, down), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := changedNode() // its pulls take a minute
					e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" + rule(`policy = "IfDigestChanged"`, `pull_deadline = "1s"`))
					e.Now = time.Now
					bobs := n.from("b", bob)
					bobs.Namespace = "b"
					waits := arrive(t, e, bobs)
					time.Sleep(10 * time.Second)
					n.push(image("third"))
					for range pods {
						arrive(t, e, n.request(nil))
						time.Sleep(100 * time.Millisecond)
					}
					if down {
						time.Sleep(20 * time.Second)
						n.mu.Lock()
						n.checkFails = failure.Unreachable
						n.mu.Unlock()
					}
					if a := <-waits; a.outcome.Kind != Pulled || a.outcome.Digest != second.Digest || a.took != time.Minute {
						t.Errorf("bob's pod: %s (%s) after %s, want Pulled after 1m: %v", a.outcome.Kind, a.outcome.Reason, a.took, a.outcome.Err)
					}
					time.Sleep(10 * time.Minute)
				})
			})
		}
	}
}
