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

var allPolicies = []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"}

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
			for what, fault := range map[string]func(){
				"says no": func() {},
				"refuses connections": func() {
					g.Refuse()
					untilTriedOnce(t, func() string { return neither.refusal(nobody, "Always", neither.ref(":1")) })
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
				for _, pair := range [][2]*scene{{here, gone}, {moved, neither}} {
					wantSameRefusals("the registry "+what, allPolicies, pair[0], pair[1], "verify-timeout", timeout)
				}
				here.Restore()
			}
		})
	}
}

// refusal is the error of a pull by who may not have the image, without where and when that was.
func (s *scene) refusal(who caller, policy, ref string, hints ...string) string {
	s.T.Helper()
	_, err := s.Pull(ref, who.secret(), node.Hint(append([]string{"policy", policy}, hints...)...))
	if err == nil {
		s.T.Fatalf("%v gets %s by %s", who, ref, policy)
	}
	text := fmt.Sprint(status.Code(err), ": ", status.Convert(err).Message())
	return moments.ReplaceAllString(strings.ReplaceAll(text, s.repo, "private/it"), "")
}

// wantSameRefusals holds that who may not have them cannot tell an image that is on the node
// and one that is not apart, by tag and by digest.
func wantSameRefusals(what string, policies []string, here, gone *scene, hints ...string) {
	here.T.Helper()
	for _, policy := range policies {
		for _, who := range []caller{nobody, wrong, eve} {
			for _, refs := range [][2]string{{here.ref(":1"), gone.ref(":1")}, {here.digest, gone.digest}} {
				private, absent := here.refusal(who, policy, refs[0], hints...), gone.refusal(who, policy, refs[1], hints...)
				if private != absent {
					here.T.Errorf("%v, %s, %s:\nprivate: %s\nabsent:  %s", who, policy, what, private, absent)
				}
			}
		}
	}
}

// untilTriedOnce waits until no request goes out on a connection from before a
// refusal: those are tried twice.
func untilTriedOnce(t *testing.T, message func() string) {
	t.Helper()
	nodetest.Eventually(t, "requests are tried once", func() bool { return !strings.Contains(message(), "tries") })
}
