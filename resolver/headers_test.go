// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A challenge of many parameters with escapes takes containerd's parser a time that
// grows with the square of its length, and no time-out ends that.
func TestChallengeThatTakesLongToRead(t *testing.T) {
	challenge := `Bearer realm="https://tokens.test",` + strings.Repeat(`a="\b",`, 150_000)
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", challenge)
		w.WriteHeader(http.StatusUnauthorized)
	})
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{})
	start := time.Now()
	_, err := s.Resolve(t.Context(), time.Second)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("the check took %v", took)
	}
	wantClass(t, err, failure.Invalid)
}
