// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/go-digest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// evesName is the name of eve's own image, which has the config of a private one.
const evesName = "z.evil.test/app:1"

// evesVolume is a node with a private image of alice's whose name comes first, and one of eve's with the same config, of which she
// runs a container and a volume. It returns the digest of the private image, and eve's ID.
func evesVolume(t *testing.T) (n *nodetest.Node, pod *nodetest.Pod, private digest.Digest, id string) {
	t.Helper()
	n = nodetest.Start(t, nodetest.Containers(t))
	img := nodetest.Busybox(t, 3, "sleep", "86400")
	alices, eves, pause := resolvertest.New(t), resolvertest.New(t), resolvertest.New(t)
	n.Serve("a.private.test", alices)
	n.Serve("z.evil.test", eves)
	n.Serve("pause.test", pause)
	annotated, ok := mutate.Annotations(img, map[string]string{"of": "alice"}).(v1.Image)
	if !ok {
		t.Fatal("no image")
	}
	private = n.PushTo(alices, "team/app:7", annotated)
	n.PushTo(eves, "app:1", img)
	first := n.MustPull("a.private.test/team/app:7", alice.secret())
	id = n.MustPull(evesName, eve.secret())
	nodetest.Want(t, "ID of both", id, first)
	return n, n.RunPod(pause), private, id
}

// wantHidden holds that a text tells no digest of a private image, and the directory of volumes where it would stand.
func wantHidden(t *testing.T, what, text string, private digest.Digest) {
	t.Helper()
	if strings.Contains(text, private.Encoded()) || !strings.Contains(text, "/image-volumes/") {
		t.Errorf("%s: want the path of a volume without the digest of a private image, got %s", what, text)
	}
}

// CRI names the directory of an image volume by the digest of the first name of its image. Neither the status of a container with
// one tells that, nor an error where a path is mounted that is not there, nor one where the volume cannot be mounted, which the
// status keeps as its message: the kubelet shows these in the events and the status of the pod.
func TestPresenceByTheVolumeOfAContainer(t *testing.T) {
	t.Parallel()
	n, pod, private, id := evesVolume(t)
	created, err := pod.Create("mounts", id, evesName, nil, nodetest.Volume{ImageID: id, UserSpecified: evesName})
	n.Must(err)
	wantHidden(t, "status", n.ContainerStatus(created).String(), private)

	_, err = pod.Create("lacks", id, evesName, nil, nodetest.Volume{ImageID: id, UserSpecified: evesName, SubPath: "nothing-there"})
	if err == nil {
		t.Fatal("a container with a path of a volume that is not there")
	}
	wantHidden(t, "error of CreateContainer", err.Error(), private)

	onFile, err := pod.Create("fails", id, evesName, nil, nodetest.Volume{ImageID: id, UserSpecified: evesName, At: "/busybox"})
	n.Must(err)
	_, err = runtimeapi.NewRuntimeServiceClient(n.Conn).StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: onFile})
	if err == nil {
		t.Fatal("a container with a volume over a file has started")
	}
	wantHidden(t, "error of StartContainer", err.Error(), private)
	wantHidden(t, "message of a status", n.ContainerStatus(onFile).GetMessage(), private)
}
