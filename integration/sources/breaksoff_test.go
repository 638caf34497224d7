// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMirrorsThatBreakLayersOff pulls layers that several mirrors break off at the same byte. The
// registry gives the rest, and is a source of them.
func TestMirrorsThatBreakLayersOff(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for _, mirrors := range []int{2, 5} {
		for _, at := range []int64{0, 50_000} {
			t.Run(fmt.Sprint(mirrors, " at ", at), func(t *testing.T) {
				m := &mirrored{Node: n.In(t).With(resolvertest.New(t))}
				tag, img := fmt.Sprintf("app:%d-%d", mirrors, at), resolvertest.Image(int64(mirrors)+at, 2, 200_000)
				m.Push(tag, img)
				var list []*resolvertest.Registry
				for range mirrors {
					mirror := resolvertest.New(t)
					m.PushTo(mirror, tag, img)
					mirror.DropMidBlob(at)
					list = append(list, mirror)
				}
				m.Serve("registry.test", m.Registry, list...)
				ref := nodetest.Named(tag)
				m.MustPull(ref)
				m.WantRunnable(ref)
				nodetest.Want(t, "the registry is a source", slices.Contains(m.allSources(ref), m.Registry.Host()), true)
			})
		}
	}
}
