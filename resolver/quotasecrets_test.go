// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
)

// A registry repeats a password of digits as its quota, which is a metric (and, up to 6 digits, written as it is).
func TestQuotasTellNoPassword(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, secret, ok := r.BasicAuth()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			answerStatus(http.StatusUnauthorized)(w, r)
			return
		}
		w.Header().Set("RateLimit-Limit", secret)
		w.Header().Set("RateLimit-Remaining", secret)
		serveManifest(w, r)
	})
	options := Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Observe: func(o Observation) {
		if o.Quota != nil && o.Quota.Limit == 471147 {
			t.Errorf("%s: %+v", o.Host, *o.Quota)
		}
	}}
	s := open(t, options, Query{Credentials: func(string) (string, string, error) { return "alice", "471147", nil }})
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
}
