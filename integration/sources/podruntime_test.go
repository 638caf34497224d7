// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAllowedSourcesOfThePodsRuntime has an image compared where the layers that a pod runs came from elsewhere: those
// of its sandbox's snapshotter. A kubelet names no runtime handler in a pull, and a pod's annotation
// is its own to write.
func TestAllowedSourcesOfThePodsRuntime(t *testing.T) {
	t.Parallel()
	const annotation = "io.containerd.cri.runtime-handler"
	for what, tc := range map[string]struct {
		handler, runsBy string
		its, other      node.PullOption // pulls for other pods, of the pod's snapshotter and of another one
		says            node.PullOption // of the pod's own
	}{
		"another runtime, which the request does not name": {"native", "native", node.RuntimeHandler("native"), node.RuntimeHandler(""), node.RuntimeHandler("")},
		"an annotation that names another one":             {"", "overlayfs", node.RuntimeHandler(""), node.RuntimeHandler("native"), node.Annotations(annotation, "native")},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := newMirrored(t, nodetest.Containers(t), nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = true"))
			img := running(t)
			m.both("free:1", img)
			m.both("app:1", img)
			m.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"registry.test/app\"]\nallowed_sources = [%q]\n", m.Registry.Host()))
			pod := m.RunPodOf(tc.handler, resolvertest.New(t))
			m.MustPull(nodetest.Named("free:1"), tc.its)
			nodetest.Want(t, "source of the layers", m.Labels(nodetest.Named("free:1"))["pull-source"], m.mirror.Host()+"/free:1")
			m.eventuallyDiscarded(img)

			ref := nodetest.Named("app:1")
			m.MustPull(ref, tc.other)
			m.Registry.Refuse()
			m.MustFail(ref, nil, pod.Pulls(), tc.says, node.Hint("policy", "IfNotPresent"))
			m.Restore()
			mark := m.Mark()
			id := m.MustPull(ref, pod.Pulls(), tc.says)
			got := m.Decision(mark, ref)
			nodetest.Want(t, "outcome", fmt.Sprintf("%s (%s)", got.Outcome, got.Reason), "Pulled (source)")
			info, err := m.Client.ContainerService().Get(namespaces.WithNamespace(t.Context(), "k8s.io"), pod.Run("app", id, ref, nil))
			m.Must(err)
			nodetest.Want(t, "the container's snapshotter", info.Snapshotter, tc.runsBy)
		})
	}
}

// running returns an image that runs, with a layer that the image of pods has not.
func running(t *testing.T) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(nodetest.Busybox(t, 1, "sleep", "86400"), nodetest.Layer(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// withJunk returns an image with the config of another one, and with layers that nobody has.
func withJunk(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	layers, err := img.Layers()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	junk := make([]v1.Layer, len(layers))
	for i := range junk {
		junk[i] = static.NewLayer([]byte{byte('0' + i)}, types.DockerLayer)
	}
	forged, err := mutate.AppendLayers(empty.Image, junk...)
	must(err)
	config, err := img.ConfigFile()
	must(err)
	forged, err = mutate.ConfigFile(forged, config)
	must(err)
	return forged
}

// TestConfigOfAnotherTenant has a pod of another runtime start though an image of another registry has the config of its
// own, and layers that nobody has. CRI has one image for both, and unpacks it by the name that
// comes first; the pull has unpacked it before.
func TestConfigOfAnotherTenant(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Containers(t), nodetest.NativeRuntime())
	good, evil := resolvertest.New(t), resolvertest.New(t)
	n.Serve("good.test", good)
	n.Serve("a.test", evil)
	img := running(t)
	n.PushTo(good, "app:1", img)
	n.PushTo(evil, "app:1", withJunk(t, img))
	pod := n.RunPodOf("native", resolvertest.New(t))
	id := n.MustPull("good.test/app:1", pod.Pulls())
	n.MustPull("good.test/app:1") // for another pod: it is unpacked for the default runtime
	nodetest.Want(t, "ID of the other tenant's image", n.MustPull("a.test/app:1"), id)
	pod.Run("app", id, "good.test/app:1", nil)
}
