// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// A host in trouble gets one probe at most where a well one gets a check. A registry and its token server
// (elsewhere) were in trouble; the registry still has 503. Each check has the registry asked once.
func TestOneProbeWhereAWellHostGetsACheck(t *testing.T) {
	addresses(t, registryName, func(t *testing.T, at string) {
		var n fakeNet
		h := newHome(&n, registryName, at)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		breaks(&h.tokens, answering(http.StatusServiceUnavailable))
		_, _ = once(t.Context(), r, of("team/app", "alice"), 5*time.Second)
		synctest.Wait()
		breaks(&h.rest, answering(http.StatusServiceUnavailable))
		_, _ = once(t.Context(), r, Query{}, 5*time.Second)
		synctest.Wait()
		if troubled := r.Troubled(); at != registryName && len(troubled) != 2 {
			t.Fatalf("got %+v", troubled)
		}
		n.asked()
		for pod := range 4 {
			time.Sleep(2 * health.Fresh)
			_, err := once(t.Context(), r, of("team/app", "alice"), 5*time.Second)
			synctest.Wait()
			asked := n.asked()
			if len(asked) > 1 {
				t.Errorf("pod %d: %v; asked %q", pod, err, asked)
			}
		}
	})
}
