// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Where the time is shared, a host whose token server elsewhere is in trouble counts as one that can answer. A mirror (old trouble) is well to probes and hangs; the registry is far (400 ms an answer), its token server (elsewhere)
// was in trouble and is well: its probe (two answers) takes longer than a check waits. The registry has its half of the time.
func TestShareBesideARegistryWhoseTokenServerWasInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const far = 400 * time.Millisecond
		var n fakeNet
		n.set(mirrorName, mute)
		h := newHome(&n, registryName, "auth.test")
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		breaks(&h.tokens, answering(http.StatusServiceUnavailable))
		_, _ = once(t.Context(), r, of("team/app", "alice"), 5*time.Second)
		time.Sleep(3 * time.Second)
		if troubled := r.Troubled(); len(troubled) != 2 {
			t.Fatalf("got %+v", troubled)
		}
		h.tokens.Store(nil)
		for _, host := range []string{registryName, "auth.test"} {
			well := n.answer[host]
			n.set(host, func(req *http.Request) (*http.Response, error) { return after(far, well)(req) })
		}
		n.set(mirrorName, wellToProbes(0, mute))
		time.Sleep(30 * time.Second)
		n.asked()
		_, err := once(t.Context(), r, of("team/app", "alice"), 5*time.Second)
		if err != nil {
			t.Errorf("%v; asked %q", err, n.asked())
		}
	})
}
