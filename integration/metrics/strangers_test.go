// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestTokenServerThatIsNoText has a tenant's registry name a token server whose host has
// bytes that are no text, behind a proxy that does not answer: metrics and pullwarden status
// tell of it in text.
func TestTokenServerThatIsNoText(t *testing.T) {
	t.Parallel()
	proxy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // it accepts nothing
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	address := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.MetricsAt(address), nodetest.Env("HTTPS_PROXY=http://"+proxy.Addr().String()),
		nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2s"`))
	n.Push("app:1", nodetest.Image(1))
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			w.Header().Set("WWW-Authenticate", `Bearer realm="https://%FF%C2%9B31m.test/token",service="s"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
	n.MustFail(nodetest.Named("app:1"), []string{"unreachable"})
	const host = "%ff%c2%9b31m.test" // %9b moves the cursor of some terminals
	want(t, address, "pullwarden_registry_open_breakers", map[string]string{"host": host}, 1)
	if shown := n.Command("status").Stdout; !strings.Contains(shown, "https://"+host+" is in trouble") {
		t.Errorf("status shows %q", shown)
	}
}
