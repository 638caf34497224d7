// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// moments are parts of a message that tell when, or how long it took.
var moments = regexp.MustCompile(` (after|within) [0-9.]+[mµn]?s|before [0-9TZ:-]+`)

// TestAccessErrors holds that who may not have an image is not told whether it
// is on the node: neither by the code nor by a word of the message.
func TestAccessErrors(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Section(`max_stale = "1h"`))
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, kind, "r"+name+".test")
			g.serve(n)
			here, gone := g.scene(t, n, "private/here"), g.scene(t, n, "private/gone")
			here.digest, gone.digest = here.push("1", nodetest.Image(1)), gone.push("1", nodetest.Image(1))
			moved, neither := g.scene(t, n, "private/moved"), g.scene(t, n, "private/lost")
			moved.digest, neither.digest = moved.push("1", nodetest.Image(1)), neither.push("1", nodetest.Image(1))
			for _, s := range []*scene{here, moved} {
				s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
			}
			moved.push("1", nodetest.Image(2))
			neither.push("1", nodetest.Image(2))

			timeout := "5s"
			told := func(s *scene, who caller, policy, ref string) string {
				t.Helper()
				_, err := s.Pull(ref, who.secret(), node.Hint("policy", policy, "verify-timeout", timeout))
				if err == nil {
					t.Fatalf("%v gets %s by %s", who, ref, policy)
				}
				text := fmt.Sprint(status.Code(err), ": ", status.Convert(err).Message())
				return moments.ReplaceAllString(strings.ReplaceAll(text, s.repo, "private/it"), "")
			}
			for what, fault := range map[string]func(){
				"says no": func() {},
				"refuses connections": func() {
					g.Refuse()
					untilTriedOnce(t, func() string { return told(neither, nobody, "Always", neither.ref(":1")) })
				},
				"hangs":        func() { g.Hang(resolvertest.Manifests); timeout = "100ms" },
				"says 401":     func() { g.Status(resolvertest.Manifests, 401) },
				"says 403":     func() { g.Status(resolvertest.Manifests, 403) },
				"says 404":     func() { g.Status(resolvertest.Manifests, 404) },
				"says 429":     func() { g.Status(resolvertest.All, 429, "Retry-After", "3600") },
				"says 500":     func() { g.Status(resolvertest.All, 500) },
				"shows a page": func() { g.HTML(resolvertest.Manifests) },
			} {
				timeout = "5s"
				fault()
				for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
					for _, who := range []caller{nobody, wrong, eve} {
						for _, pair := range [][2]*scene{{here, gone}, {moved, neither}} {
							for _, objects := range [][2]string{{pair[0].ref(":1"), pair[1].ref(":1")}, {pair[0].digest, pair[1].digest}} {
								private, absent := told(pair[0], who, policy, objects[0]), told(pair[1], who, policy, objects[1])
								if private != absent {
									t.Errorf("%v, %s, the registry %s:\nprivate: %s\nabsent:  %s", who, policy, what, private, absent)
								}
							}
						}
					}
				}
				here.Restore()
			}
		})
	}
}

// untilTriedOnce waits until no request goes out on a connection from before a
// refusal: those are tried twice.
func untilTriedOnce(t *testing.T, message func() string) {
	t.Helper()
	nodetest.Eventually(t, "requests are tried once", func() bool { return !strings.Contains(message(), "tries") })
}
