// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestQuarantinedPlatformOfAComparedImage compares an image, which came from elsewhere, with that of a mirror. Its
// platform's manifest is in quarantine at the registry, whose answers alone decide.
func TestQuarantinedPlatformOfAComparedImage(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Registry = guarded(t)
	elsewhere, mirror := resolvertest.New(t), resolvertest.New(t)
	n.Serve("registry.test", n.Registry, elsewhere, mirror)
	n.WriteRules("10.toml", fmt.Sprintf(`
[[rule]]
images = ["registry.test/**"]
namespaces = ["careful"]
check_with = "Manifest"
resolve_from = "Origin"
allowed_sources = [%q, %q]
[[rule]]
images = ["registry.test/**"]
`, mirror.Host(), n.Registry.Host()))
	n.Start()
	careful := node.Pod("careful", "a")
	for _, r := range []*resolvertest.Registry{n.Registry, elsewhere, mirror} {
		n.PushTo(r, "app:1", resolvertest.Index(7, 2, 500))
	}
	ref := nodetest.Named("app:1")
	wantPull(n, ref, "Pulled absent", node.Pod("others", "b")) // from elsewhere
	undo := quarantine(n.Registry, "app", http.StatusForbidden, platformOf(t, 7))
	wantPull(n, ref, "Failed forbidden", careful)
	undo()
	wantPull(n, ref, "Pulled source", careful)
}
