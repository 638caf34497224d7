// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// A mirror that needs 2.5 s for TLS, and a registry that is down, are both in trouble; nothing is cached. Nobody else is ready: the
// mirror has long for TLS, and answers.
func TestSlowTLSWhereAllHostsAreInTrouble(t *testing.T) {
	t.Parallel()
	mirror := serveLate(t, longHandshake, serveManifest)
	registry, _ := serve(t, answerStatus(http.StatusServiceUnavailable))
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, unverified(mirror.URL, registry.URL))}})
	_, err := once(t.Context(), r, Query{}, 20*time.Second)
	waitFor(t, func() bool { return len(r.Troubled()) == 2 || err == nil })
	time.Sleep(2 * health.Fresh)
	if _, err := once(t.Context(), r, Query{}, 20*time.Second); err != nil {
		t.Error(err)
	}
}
