// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A mirror's document is not the fault of a registry that nobody has asked.
func TestBlameForADocument(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	img := nodetest.Image(1)
	f := forge(n, img)
	m := manifestOf(n, img)
	m.Layers[0].Size = 0
	f.top = f.add(t, m)
	registry, mirror := resolvertest.New(t), f.registry(t)
	n.Serve("made.test", registry, mirror)
	_, err := n.Pull("made.test/app:1")
	if err == nil || !strings.Contains(err.Error(), "invalid") || !strings.Contains(err.Error(), "host "+mirror.Host()) {
		t.Errorf("got %v", err)
	}
	nodetest.Want(t, "requests to the registry", len(registry.Requests()), 0)
}
