// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// gcPeriod is that of the kubelet's garbage collection of images. The first one is at
// its start, before any image is old enough; a machine so busy that the second one is too
// early gets a third.
const gcPeriod = 5 * time.Minute

// TestGarbageCollection holds that the kubelet takes away images that nothing has
// used for imageMaximumGCAge, and leaves those of pods, and those that an operator or a
// rule has pinned; of a tag that was pulled anew only the image that it has now.
func TestGarbageCollection(t *testing.T) {
	aloneFirst(t, withKubelet(func(k *Kubelet) {
		k.Config["imageMinimumGCAge"] = "1ms"
		k.Config["imageMaximumGCAge"] = "1s"
		k.Restart()
		used := k.Push("used:1", 1)
		k.Run(app("used:1", Always)).WantStarted(used)
		for i, name := range []string{"unused:1", "pinned:1"} {
			k.Node.Push(name, nodetest.Image(int64(i)))
			k.Node.MustPull(nodetest.Named(name))
		}
		k.pin(nodetest.Named("pinned:1"))
		superseded := k.Node.Push("kept:1", nodetest.Image(2))
		k.Node.MustPull(nodetest.Named("kept:1"))
		k.Node.Push("kept:1", nodetest.Image(3))
		k.Node.MustPull(nodetest.Named("kept:1"))

		for _, name := range []string{"unused:1", "kept@" + superseded.String()} {
			k.within(2*gcPeriod+limit, name+" is gone", func() error {
				if _, there := k.Node.Record(nodetest.Named(name)); there {
					return errors.New("it is there")
				}
				return nil
			})
		}
		k.Node.WantRunnable(nodetest.Named("pinned:1"))
		k.Node.WantRunnable(nodetest.Named("kept:1"))
		for _, name := range []string{nodetest.Named("used:1"), nodetest.PauseImage} {
			if _, there := k.Node.Record(name); !there {
				t.Errorf("%s is gone", name)
			}
		}
	}, nodetest.Section(nodetest.IfDigestChanged), rules(t, "[[rule]]\nimages = ['registry.test/kept']\npin = true\n")))
}

// pin labels an image as an operator does who wants to keep it.
func (k *Kubelet) pin(ref string) {
	k.T.Helper()
	img, _ := k.Node.Record(ref)
	img.Labels["io.cri-containerd.pinned"] = "pinned"
	_, err := k.Node.Client.ImageService().Update(k.T.Context(), img, "labels.io.cri-containerd.pinned")
	k.Node.Must(err)
	k.until("CRI knows that "+ref+" is pinned", func() error {
		if !k.Node.Status(ref).GetImage().GetPinned() {
			return errors.New("it is not pinned")
		}
		return nil
	})
}
