// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestRelativeRedirectsOfPasswords has a registry redirect to a URL with the whole of a password,
// and from there by a relative URL, in whose place net/http leaves out the end of the password.
func TestRelativeRedirectsOfPasswords(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, sent, ok := r.BasicAuth()
		switch {
		case !ok:
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/v2/"):
			w.Header().Set("Location", "/at/"+sent)
			w.WriteHeader(http.StatusTemporaryRedirect)
		case strings.HasSuffix(r.URL.Path, "/more"):
			w.Header().Set("Location", "x")
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	n.WriteHosts("r.test", fmt.Sprintf("server = %q\n", server.URL))
	_, err := n.Pull("r.test/app:1", node.Credentials("alice", "Summer2024xyz/more"))
	if err == nil || strings.Contains(err.Error(), "Summer2024") {
		t.Errorf("the pod is told: %v", err)
	}
}
