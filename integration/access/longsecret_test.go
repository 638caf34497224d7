// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestLongSecrets has a registry that refuses the caller, behind a proxy that resets
// connections over long headers, as some do: by a long secret a caller must not choose
// that no registry can say whose an image is.
func TestLongSecrets(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	n.WriteRules("10.toml", "[[rule]]\nimages = ['**']\nhints = 'Tighten'\npolicy = 'IfDigestChanged'\n")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Get("Authorization")) > 8<<10 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="proxy"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(proxy.Close)
	n.WriteHosts("long.test", fmt.Sprintf("server = %q\n", proxy.URL))
	n.Import("long.test/app:1", nodetest.Image(1))
	for _, size := range []int{1, 4 << 10, 7 << 10, 16 << 10, 500 << 10} {
		mark := n.Mark()
		_, err := n.Pull("long.test/app:1", node.Credentials("eve", strings.Repeat("x", size)))
		if d := n.Decision(mark, "long.test/app:1"); err == nil || d.Outcome != "Failed" || d.Reason != "unauthorized" {
			t.Errorf("with a secret of %d bytes: %s (%s), %v", size, d.Outcome, d.Reason, err)
		}
	}
}
