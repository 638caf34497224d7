// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/containerd/log"
)

// A registry redirects to a path that is the password it was sent, as it is: neither errors nor logs
// repeat that.
func TestRedirectToAPassword(t *testing.T) {
	const secret = "Summer!2024,xyz"
	away, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, sent, ok := r.BasicAuth()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Location", away.URL+"/"+sent)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	entry, logged := newLogger(log.DebugLevel)
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as("alice", secret)})
	_, err := s.Resolve(log.WithLogger(t.Context(), entry), plenty)
	for what, text := range map[string]string{"the error": fmt.Sprint(err), "the log": logged.String()} {
		if text, _ := url.PathUnescape(text); strings.Contains(text, secret) {
			t.Errorf("%s has the password: %.600s", what, fmt.Sprint(err))
		}
	}
}
