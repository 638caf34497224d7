// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/store"
)

// tenant has pods of some namespaces ask for images of some registries.
type tenant struct{ registries, namespaces int }

// asks is the request number i.
func (who tenant) asks(n *node, i int) Request {
	req := n.request(nil)
	req.Repository = fmt.Sprintf("r%d.test/app-%d", i%who.registries, i)
	req.Name = req.Repository + ":1"
	req.PodNamespace = store.Fingerprint(fmt.Sprintf("namespace %d", i%who.namespaces))
	return req
}

// Beyond the bound a request waits for its pull, until another one has ended. The bound is
// that of a registry which the operator has named, or of all others; and no namespace has
// more than a share of it, nor has a registry that only references have named.
func TestBackgroundPullsAreBounded(t *testing.T) {
	const byHosts = true
	atOnce := rule("policy = \"IfDigestChanged\"\npull_deadline = \"0s\"")
	byRule := "[[rule]]\nimages = [\"r0.test/**\"]\npolicy = \"IfDigestChanged\"\npull_deadline = \"0s\"\n"
	for what, tc := range map[string]struct {
		rules string
		named bool
		who   tenant
		want  int
	}{
		"a registry that a rule names":               {byRule, !byHosts, tenant{1, 8}, maxBackground},
		"a registry of a hosts.toml":                 {atOnce, byHosts, tenant{1, 8}, maxBackground},
		"registries of a hosts.toml":                 {atOnce, byHosts, tenant{2, 8}, 2 * maxBackground},
		"a namespace, at a registry of a hosts.toml": {atOnce, byHosts, tenant{1, 1}, maxShare},
		"others":                 {atOnce, !byHosts, tenant{8, 8}, maxBackground},
		"one of the others":      {atOnce, !byHosts, tenant{1, 8}, maxShare},
		"a namespace, at others": {atOnce, !byHosts, tenant{8, 1}, maxShare},
		"others beside one that a rule names, by patterns": {byRule + atOnce, !byHosts, tenant{3, 8}, 2 * maxBackground},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := changedNode()
				n.named = tc.named
				e := n.engine(tc.rules)
				var waits []<-chan arrival
				for i := range 4 * maxBackground {
					waits = append(waits, arrive(t, e, tc.who.asks(n, i)))
				}
				cached := 0
				for _, w := range waits {
					select {
					case a := <-w:
						wantOverdue(t, a, 0)
						cached++
					default:
					}
				}
				if got := len(e.BackgroundPulls()); got != tc.want || cached != tc.want {
					t.Errorf("%d in the background, and %d use the cached image, want %d", got, cached, tc.want)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if len(e.pulls.all)+len(e.pulls.joinable) != 0 {
					t.Errorf("left behind: %+v", &e.pulls)
				}
			})
		})
	}
}

// A request that found no place waits until another pull has ended, and not for its own.
func TestPlaceIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		e := n.engine(rule("policy = \"IfDigestChanged\"\npull_deadline = \"0s\""))
		all := tenant{8, 8}
		for i := range maxBackground {
			wantOverdue(t, <-arrive(t, e, all.asks(n, i)), 0)
			time.Sleep(time.Second)
		}
		// The fake node has one record for all names, which the first pull moves.
		waits := arrive(t, e, all.asks(n, maxBackground))
		time.Sleep(10 * time.Second)
		select {
		case a := <-waits:
			t.Errorf("one more did not wait: %s (%s)", a.outcome.Kind, a.outcome.Reason)
		default:
		}
		if a := <-waits; a.outcome.Kind == Failed || a.outcome.Digest != second.Digest {
			t.Errorf("one more: %s (%s)", a.outcome.Kind, a.outcome.Reason)
		}
		time.Sleep(time.Hour)
	})
}
