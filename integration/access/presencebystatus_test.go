// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The status of a container of an image that has the config of a private one names neither that nor its digest: the kubelet shows
// it in the status of the pod, which a tenant reads. Nor do events. That of the private image's own container names it.
func TestPresenceByTheStatusOfAContainer(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Containers(t))
	g := newGuarded(t, resolvertest.WithTokenAuth, "a.guarded.test")
	g.serve(n)
	s := g.scene(t, n, "private/secret")
	img := nodetest.Busybox(t, 3, "sleep", "86400")
	s.push("7", img)
	private := s.MustPull(s.ref(":7"), alice.secret())
	evil := resolvertest.New(t)
	n.Serve("z.evil.test", evil)
	pushed := n.PushTo(evil, "app:1", img)
	id := n.MustPull("z.evil.test/app:1", eve.secret())
	nodetest.Want(t, "ID of both", id, private)

	pause := resolvertest.New(t)
	n.Serve("pause.test", pause)
	pod, events := n.RunPod(pause), n.ContainerEvents()
	eves := pod.Run("eve", id, "z.evil.test/app:1", nil)
	wantStatus(t, n, eves, "z.evil.test/app:1", "z.evil.test/app@"+pushed.String())
	wantEvent(t, events, eves, "z.evil.test/app:1", "z.evil.test/app@"+pushed.String())
	wantRecord(t, n, eves, "z.evil.test/app:1")
	alices := pod.Run("alice", id, s.ref(":7"), nil)
	wantStatus(t, n, alices, s.ref(":7"), s.ref("@"+pushed.String()))

	// A tag that has moved on names no container of what it stood for, and no more does anything of others.
	n.PushTo(evil, "app:1", nodetest.Busybox(t, 4, "sleep", "86400"))
	n.MustPull("z.evil.test/app:1", eve.secret())
	wantStatus(t, n, eves, id, "z.evil.test/app@"+pushed.String())
	n.Restart()
	wantStatus(t, n, eves, id, "z.evil.test/app@"+pushed.String())
	wantStatus(t, n, alices, s.ref(":7"), s.ref("@"+pushed.String()))
}

// wantStatus holds what the status of a container names as its image.
func wantStatus(t *testing.T, n *nodetest.Node, container, image, ref string) {
	t.Helper()
	status := n.ContainerStatus(container)
	nodetest.Want(t, "image of a container", status.GetImage().GetImage(), image)
	nodetest.Want(t, "image_ref of a container", status.GetImageRef(), ref)
}

// wantRecord holds what containerd's own record of a container names as its image, which cAdvisor publishes as the label image of the
// container's metrics.
func wantRecord(t *testing.T, n *nodetest.Node, id, image string) {
	t.Helper()
	container, err := n.Client.LoadContainer(t.Context(), id)
	n.Must(err)
	info, err := container.Info(t.Context())
	n.Must(err)
	nodetest.Want(t, "image in the record of a container", info.Image, image)
}

// wantEvent waits for an event of a container, and holds what the container's status in it names as its image.
func wantEvent(t *testing.T, events <-chan *runtimeapi.ContainerEventResponse, container, image, ref string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case event := <-events:
			for _, status := range event.GetContainersStatuses() {
				if status.GetId() == container {
					nodetest.Want(t, "image in an event", status.GetImage().GetImage(), image)
					nodetest.Want(t, "image_ref in an event", status.GetImageRef(), ref)
					return
				}
			}
		case <-late:
			t.Fatal("no event of a container")
		}
	}
}

// Nor does it where the private image is an artifact: all of these have one config, which everybody knows.
func TestPresenceOfAnArtifactByTheStatusOfAContainer(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Containers(t))
	private, evil := artifact(t, "a private model"), artifact(t, "of eve")
	n.Serve("a.private.test", private.registry(t))
	n.Serve("z.evil.test", evil.registry(t))
	n.MustPull("a.private.test/team/model:7", alice.secret())
	id := n.MustPull("z.evil.test/app:1", eve.secret())
	pause := resolvertest.New(t)
	n.Serve("pause.test", pause)
	container, err := n.RunPod(pause).CreateCommand("eve", id, "z.evil.test/app:1", "/x")
	n.Must(err)
	wantStatus(t, n, container, "z.evil.test/app:1", "z.evil.test/app@"+evil.top.Digest.String())
	wantRecord(t, n, container, "z.evil.test/app:1")
}

// artifact is a manifest with the empty config of OCI's image specification, and one layer of its own.
func artifact(t *testing.T, text string) *forgery {
	t.Helper()
	f := &forgery{served: map[digest.Digest][]byte{}}
	blob := func(mediaType, text string) ocispec.Descriptor {
		d := digest.FromString(text)
		f.served[d] = []byte(text)
		return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(text))}
	}
	f.top = f.add(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: blob(ocispec.MediaTypeEmptyJSON, "{}"), Layers: []ocispec.Descriptor{blob("application/vnd.acme.model", text)},
	})
	return f
}
