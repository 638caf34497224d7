// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"
)

// A redirect whose own body breaks off is followed, as net/http does: for a token, and for a
// manifest.
func TestRedirectsThatBreakOff(t *testing.T) {
	for name, rest := range map[string]string{
		"short":          "Content-Length: 100\r\n\r\n<a>",
		"none":           "Content-Length: 100\r\n\r\n",
		"without end":    "Transfer-Encoding: chunked\r\n\r\n3\r\n<a>\r\n",
		"not as it says": "Content-Encoding: gzip\r\nContent-Length: 6\r\n\r\n<html>",
	} {
		to := func(location string) http.HandlerFunc {
			return raw("HTTP/1.1 307 Temporary Redirect\r\nConnection: close\r\nLocation: " + location + "\r\n" + rest)
		}
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			g.tokens = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery == "moved" {
					g.hand(w, r)
				} else {
					to("/token?moved")(w, r)
				}
			}
			if _, err := resolve(t, Query{Credentials: alice}, g.server.URL); err != nil {
				t.Errorf("for a token: %v", err)
			}
			storage, _ := serve(t, serveManifest)
			server, _ := serve(t, to(storage.URL+"/manifest"))
			if _, err := resolve(t, Query{ReadManifest: true}, server.URL); err != nil {
				t.Errorf("for a manifest: %v", err)
			}
		})
	}
}
