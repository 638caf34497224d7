// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestNamesOfOfficialImages holds that a rule about an official image of Docker Hub is in force by
// whichever of its names Docker Hub is spelled: the proxy caches of Harbor redirect docker.io/app to
// docker.io/library/app, those of Artifactory and Nexus serve it as that.
func TestNamesOfOfficialImages(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	mirror := resolvertest.New(t)
	n.PushTo(mirror, "library/app:1", nodetest.Image(1))
	mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if rest, ok := strings.CutPrefix(r.URL.Path, "/v2/app/"); ok {
			http.Redirect(w, r, "/v2/library/app/"+rest, http.StatusMovedPermanently)
			return
		}
		next.ServeHTTP(w, r)
	})
	n.Serve("docker.io", mirror)
	for _, images := range []string{"docker.io/library/**", "docker.io/library/app", "index.docker.io/library/app:1", "docker.io/*/*"} {
		n.WriteRules("10.toml", "[[rule]]\nimages = [\""+images+"\"]\npolicy = \"Never\"\nhints = \"Ignore\"\n")
		for _, name := range []string{"app:1", "docker.io/app:1", "index.docker.io/app:1", "registry-1.docker.io/app:1", "Docker.io/app:1", "docker.io:443/app:1"} {
			if _, err := n.Pull(name); err == nil {
				t.Errorf("the rule for %s does not hold for %s", images, name)
			}
		}
	}
}

// TestOfficialImageIsAskedByItsOneName holds that an official image is asked by its one name, and that
// its records keep the name that was asked for.
func TestOfficialImageIsAskedByItsOneName(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	mirror := resolvertest.New(t)
	n.PushTo(mirror, "library/app:1", nodetest.Image(1))
	n.Serve("docker.io", mirror)
	for _, name := range []string{"registry-1.docker.io/app:1", "Docker.io/app:1", "docker.io:443/app:1"} {
		n.MustPull(name)
		nodetest.Want(t, name, n.Labels(name)["pull-source"], mirror.Host()+"/library/app:1")
	}
}
