// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// The registry has said v2, and v1 again after that (a rollback), which a pod has confirmed. A mirror that says v2 in the
// place of the registry, to a pod that waits for the pull of v2 then, makes no check of the registry's of it: that pull
// follows an outdated answer.
func TestMirrorRenewsNoAnswerOfTheRegistrys(t *testing.T) {
	for _, joins := range []bool{false, true} {
		t.Run(fmt.Sprint(joins), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{record: cachedImage(first, time.Now().Add(-2*time.Hour)), remote: second, pullTakes: time.Minute}
				e := n.engine(rule(`policy = "IfDigestChanged"`, `pull_deadline = "1s"`, `max_age = "10m"`, inNeed))
				e.Now = time.Now
				<-arrive(t, e, n.request(nil)) // v2 is pulled in the background
				time.Sleep(10 * time.Second)
				n.push(first)
				<-arrive(t, e, n.request(nil))
				if joins {
					time.Sleep(10 * time.Second)
					n.mu.Lock()
					n.remote, n.inNeed = second, true
					n.mu.Unlock()
					<-arrive(t, e, n.request(nil))
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				n.mu.Lock()
				n.remote, n.inNeed = first, false // the registry is back
				n.mu.Unlock()
				o := (<-arrive(t, e, n.request(nil))).outcome
				if o.Digest != first.Digest && o.Kind == Fresh {
					t.Errorf("%s (%s), second image: %v", o.Kind, o.Reason, o.Digest == second.Digest)
				}
				time.Sleep(10 * time.Minute)
			})
		})
	}
}
