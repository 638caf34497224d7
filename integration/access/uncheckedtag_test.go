// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestYesToATagWithoutACheck has a tag with labels as earlier versions left them, a proof and no check, and
// no record by its digest. The tag has moved in the registry since. The registry's next yes to the
// image that is here gives the proof (docs/access.md, "Labels").
func TestYesToATagWithoutACheck(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.digest = s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	s.wantPull(alice, "Always", ref, "Pulled")
	s.waitForWrites()
	s.SetLabels(ref, map[string]string{"verified-digest": "", "record": ""})
	s.Must(s.Client.ImageService().Delete(t.Context(), s.digest))
	s.push("1", nodetest.Image(2))
	s.wantPull(alice, "IfNotPresent", ref, "Unchanged")
	s.waitForWrites()
	s.wantPull(alice, "Never", ref, "Present")
	s.wantPull(alice, "IfNotPresent", ref, "Present")
}
