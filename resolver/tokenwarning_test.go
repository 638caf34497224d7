// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// A token server speaks for nobody but itself, also where it is a part of the registry: what it
// says in headers may be the tokens that it gives, or has given.
func TestTokenServersDoNotWarn(t *testing.T) {
	g := newGuarded(t)
	g.accepts = func(token string) bool { return token == "token-2" }
	g.tokens = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Ratelimit", "limit=2, remaining=1")
		w.Header().Set("Warning", fmt.Sprintf(`299 - "after token-%d comes token-%d"`, g.issued.Load(), g.issued.Load()+1))
		g.hand(w, r)
	}
	var mu sync.Mutex
	var seen []Observation
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL))}, Observe: func(o Observation) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, o)
	}}, Query{Credentials: alice})
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 5 {
		t.Errorf("%d requests", len(seen))
	}
	for _, o := range seen {
		if o.Warnings != nil || o.Quota != nil {
			t.Errorf("%s: %q, %+v", o.Method, o.Warnings, o.Quota)
		}
	}
}
