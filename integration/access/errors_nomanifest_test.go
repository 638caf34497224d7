// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessErrorsOfNoManifests holds that who may not have an image is not told whether it
// is on the node where a registry, or a portal before it, answers with a success that is no
// manifest: HEAD and GET of it have different errors.
func TestAccessErrorsOfNoManifests(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	here, gone := g.scene(t, n, "private/here"), g.scene(t, n, "private/gone")
	here.digest, gone.digest = here.push("1", nodetest.Image(1)), gone.push("1", nodetest.Image(1))
	here.wantPull(alice, "Always", here.ref(":1"), "Pulled")
	for _, answer := range []struct {
		code                int
		contentType, digest string
		body                string
	}{
		{200, "", "", ""},
		{204, "", "", ""},
		{206, "text/plain", "", "log in first"},
		{200, "text/plain", "", "log in first"},
		{200, "application/json", "", `{"errors":[{"code":"DENIED","message":"log in first"}]}`},
		{200, "application/json", here.digest, `{}`},
		{200, "application/vnd.oci.image.manifest.v1+json", here.digest, ``},
		{200, "text/html", "", "<html>log in first</html>"},
	} {
		undo := g.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if !strings.Contains(req.URL.Path, "/manifests/") {
				next.ServeHTTP(w, req)
				return
			}
			w.Header().Set("Content-Type", answer.contentType)
			if _, d, ok := strings.Cut(answer.digest, "@"); ok {
				w.Header().Set("Docker-Content-Digest", d)
			}
			w.WriteHeader(answer.code)
			if answer.code != http.StatusNoContent {
				_, _ = w.Write([]byte(answer.body))
			}
		})
		wantSameRefusals(fmt.Sprint(answer), allPolicies, here, gone)
		undo()
	}
}
