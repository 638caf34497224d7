// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// repeatPassword says a password that it gets by Basic, where the path asks for it.
func repeatPassword(w http.ResponseWriter, r *http.Request) {
	_, sent, ok := r.BasicAuth()
	if !ok {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		if strings.Contains(r.URL.Path, "realm") {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token/Summer2024xyz?zone&whole=Summer2024xyz?zone"`)
		}
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch {
	case strings.Contains(r.URL.Path, "reason"):
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"no access by %s"}]}`, sent)
	case strings.Contains(r.URL.Path, "warning"):
		w.Header().Set("Warning", fmt.Sprintf(`299 - "your password %s ends soon"`, sent))
		w.WriteHeader(http.StatusForbidden)
	case strings.Contains(r.URL.Path, "redirect"):
		w.Header().Set("Location", "http://"+sent)
		w.WriteHeader(http.StatusTemporaryRedirect)
	case strings.Contains(r.URL.Path, "dots"):
		w.Header().Set("Location", "http://127.0.0.1:1/"+sent+"?"+sent)
		w.WriteHeader(http.StatusTemporaryRedirect)
	case strings.Contains(r.URL.Path, "scheme"):
		w.Header().Set("Location", sent)
		w.WriteHeader(http.StatusTemporaryRedirect)
	case strings.Contains(r.URL.Path, "status"):
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n", sent)
			_ = conn.Close()
		}
	default:
		w.Header().Set("Content-Type", sent)
		w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
		w.Header().Set("Content-Length", "10")
	}
}

// Passwords that have what ends a word, a value, a header or the host of a URL: nothing that the
// daemon tells has the rest of one.
func TestPartsOfPasswords(t *testing.T) {
	t.Parallel()
	metrics := nodetest.FreeAddress(t)
	n := nodetest.Start(t, nodetest.MetricsAt(metrics), nodetest.AuditLog("audit.log"))
	server := httptest.NewServer(http.HandlerFunc(repeatPassword))
	t.Cleanup(server.Close)
	n.WriteHosts("r.test", fmt.Sprintf("server = %q\n", server.URL))
	n.WriteHosts("bad.test", "[host.\"https://robot:Summer2024 horse-battery@mirror.test\"]\ncapabilities = [\"pull\"]\n")
	var told []string
	for ref, password := range map[string]string{
		"r.test/reason/app:1":   "ColonSummer2024:",
		"r.test/type/app:1":     "SemicolonSummer2024;more",
		"r.test/warning/app:1":  `QuoteSummer2024"more`,
		"r.test/redirect/app:1": "Summer2024xyz/more",
		"r.test/dots/app:1":     "more/../Summer2024xyz",
		"r.test/realm/app:1":    "Summer2024xyz?zone",
		"r.test/scheme/app:1":   "Summer2024xyz:more",
		"r.test/status/app:1":   "Summer2024xyz more",
		"bad.test/app:1":        "nothing-of-it",
	} {
		_, err := n.Pull(ref, node.Credentials("alice", password))
		if err == nil {
			t.Errorf("%s: pulled", ref)
		}
		told = append(told, fmt.Sprintf("%s: %v", ref, err))
	}
	all := everythingTold(n, metrics)
	all["errors"] = []byte(strings.Join(told, "\n"))
	for where, b := range all {
		if strings.HasSuffix(where, "hosts.toml") {
			continue // it is there
		}
		for line := range bytes.Lines(b) {
			if bytes.Contains(bytes.ToLower(line), []byte("summer2024")) || bytes.Contains(line, []byte("horse-battery")) {
				t.Errorf("%s: %.600s", where, line)
			}
		}
	}
}
