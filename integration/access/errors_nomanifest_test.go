// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/integration/node"
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
	hereDigest, goneDigest := here.push("1", nodetest.Image(1)), gone.push("1", nodetest.Image(1))
	here.wantPull(alice, "Always", here.ref(":1"), "Pulled")
	told := func(s *scene, who caller, policy, ref string) string {
		t.Helper()
		_, err := s.Pull(ref, who.secret(), node.Hint("policy", policy))
		if err == nil {
			t.Fatalf("%v gets %s by %s", who, ref, policy)
		}
		text := fmt.Sprint(status.Code(err), ": ", status.Convert(err).Message())
		return moments.ReplaceAllString(strings.ReplaceAll(text, s.repo, "private/it"), "")
	}
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
		{200, "application/json", hereDigest, `{}`},
		{200, "application/vnd.oci.image.manifest.v1+json", hereDigest, ``},
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
		for _, policy := range []string{"Always", "IfNotPresent"} {
			for _, who := range []caller{nobody, wrong, eve} {
				for _, refs := range [][2]string{{here.ref(":1"), gone.ref(":1")}, {hereDigest, goneDigest}} {
					private, absent := told(here, who, policy, refs[0]), told(gone, who, policy, refs[1])
					if private != absent {
						t.Errorf("%v, %s, %+v:\nprivate: %s\nabsent:  %s", who, policy, answer, private, absent)
					}
				}
			}
		}
		undo()
	}
}
