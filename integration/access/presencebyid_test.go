// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The error of a container that is asked for by the ID of an image names no other tenant's image with the same config.
func TestPresenceByAnIDThatDoesNotUnpack(t *testing.T) {
	for _, discard := range []string{"true", "false"} {
		t.Run("discard_unpacked_layers="+discard, func(t *testing.T) {
			n := nodetest.Start(t, nodetest.Containers(t), nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = "+discard))
			img := nodetest.Image(7)
			alices, eves := resolvertest.New(t), resolvertest.New(t)
			n.Serve("a.private.test", alices)
			n.Serve("z.evil.test", eves)
			annotated, ok := mutate.Annotations(img, map[string]string{"of": "alice"}).(v1.Image)
			if !ok {
				t.Fatal("no image")
			}
			private := n.PushTo(alices, "team/app:7", annotated)
			n.PushTo(eves, "app:1", img)
			id := n.MustPull(evesName, eve.secret())
			pod := n.RunPodOf("native", resolvertest.New(t))
			n.CollectGarbage()
			create := func(name string) string {
				_, err := pod.Create(name, id, id, nil)
				if err == nil {
					return "none"
				}
				return extracting.ReplaceAllString(err.Error(), "extract")
			}
			before := create("before")
			n.MustPull("a.private.test/team/app:7", alice.secret())
			n.CollectGarbage()
			after := create("after")
			if strings.Contains(after, "private") || strings.Contains(after, private.Encoded()) {
				t.Errorf("the error names a private image: %s", after)
			}
			if after != before {
				t.Errorf("error once the private image is there:\n%s\nwithout it:\n%s", after, before)
			}
		})
	}
}
