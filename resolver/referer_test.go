// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A registry lets the caller in at an address of its own by what signs that, and redirects to a storage service from there:
// net/http tells the storage service where it comes from.
func TestStorageIsNotToldByWhatTheRegistrysURLIsSigned(t *testing.T) {
	var told atomic.Value
	storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), "of-the-caller") {
				told.Store(name + ": " + strings.Join(values, " "))
			}
		}
		serveManifest(w, r)
	})
	registry, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("jwt") == "" {
			http.Redirect(w, r, r.URL.Path+"?jwt=token-of-the-caller-1234", http.StatusTemporaryRedirect)
			return
		}
		http.Redirect(w, r, storage.URL+"/manifest", http.StatusTemporaryRedirect)
	})
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(registry.URL))}}, Query{})
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
	if header := told.Load(); header != nil {
		t.Errorf("the storage service was sent %q", header)
	}
}
