// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A password of 64 hexadecimal digits (openssl rand -hex 32) looks like a digest: a registry that
// repeats it as that has it neither logged, nor in a label or a line of the audit log.
func TestPasswordsAreNoDigests(t *testing.T) {
	t.Parallel()
	robot := caller{"robot", "5f1d7a84db7d2fce53b1a4e1d5b6c6ff0e2d4a84db7d2fce53b1a4e1d5b6c6aa"}
	metrics := nodetest.FreeAddress(t)
	n := nodetest.Start(t, nodetest.MetricsAt(metrics), nodetest.AuditLog("audit.log"))
	g := newGuarded(t, resolvertest.WithBasicAuth, "rdigest.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.MustPull(s.ref(":1"), alice.secret())
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		_, sent, ok := r.BasicAuth()
		if !ok || sent != robot.password {
			next.ServeHTTP(w, r)
			return
		}
		if strings.Contains(r.URL.Path, sent) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if r.Method != http.MethodHead {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Docker-Content-Digest", "sha256:"+sent)
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Content-Length", "500")
	})
	_, err := s.Pull(s.ref(":2"), robot.secret())
	all := everythingTold(n, metrics)
	all["errors"] = fmt.Append(nil, err)
	for where, b := range all {
		if at := strings.Index(string(b), robot.password); at >= 0 {
			text := strings.ToValidUTF8(string(b[max(0, at-300):min(len(b), at+100)]), "")
			t.Errorf("%s has the password: …%q…", where, text)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "invalid") {
		t.Errorf("got %v", err)
	}
}
