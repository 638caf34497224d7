// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/version"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// checkpointArchive is the checkpoint of a container, as containerd 2.3 reads it, that was made of an image.
func checkpointArchive(t *testing.T, of string, annotations map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, v := range map[string]any{
		"spec.dump":   map[string]any{"ociVersion": "1.0.0"},
		"config.dump": map[string]any{"rootfsImageName": of, "rootfsImageRef": of},
		"status.dump": map[string]any{"metadata": map[string]any{"name": "app"}, "image": map[string]any{"image": of}, "annotations": annotations},
	} {
		text, err := json.Marshal(v)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))})
		}
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// checkpoint is an image with such a checkpoint.
func checkpoint(t *testing.T, of string, annotations map[string]string) v1.Image {
	t.Helper()
	archive := checkpointArchive(t, of, annotations)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(nodetest.Busybox(t, 7, "sleep", "86400"), layer)
	if err != nil {
		t.Fatal(err)
	}
	made, ok := mutate.Annotations(img, map[string]string{"org.criu.checkpoint.container.name": "app"}).(v1.Image)
	if !ok {
		t.Fatal("no image")
	}
	return made
}

// criu answers the question for its version, as CRIU 4.0 does, and nothing else.
const criu = `#!/bin/bash
dd bs=4096 count=1 of=/dev/null 2>/dev/null <&"$2"
printf '\010\012\020\001\122\004\010\004\020\000' | dd bs=4096 iflag=fullblock 2>/dev/null >&"$2"
`

// startRestoring starts a node whose containerd, if it is 2.3, restores checkpoints.
func startRestoring(t *testing.T) (n *nodetest.Node, restores bool) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(bin+"/criu", []byte(criu), 0o700); err != nil {
		t.Fatal(err)
	}
	return nodetest.Start(t, nodetest.Containers(t), nodetest.CRIRuntime("enable_experimental_restore_via_create = true"),
		nodetest.Env("PATH="+bin+":"+os.Getenv("PATH"))), strings.HasPrefix(version.Version, "2.3.")
}

// bring has a checkpoint come by a pull, or by an operator where containerd would restore it: there it is not pulled.
func bring(s *scene, restores bool, ref string, img v1.Image) (id string) {
	s.T.Helper()
	if !restores {
		return s.MustPull(ref)
	}
	s.MustFail(ref, []string{"checkpoint"})
	s.Import(ref, img)
	return s.Status(ref).GetImage().GetId()
}

// TestCheckpointWithTheConfigOfAnother holds that a pod gets its container beside an image with the same config, and so the same ID,
// whose first name is that of one that says it is a checkpoint: containerd 2.3 makes none of those, whether it restores them or not.
func TestCheckpointWithTheConfigOfAnother(t *testing.T) {
	t.Parallel()
	for _, restoring := range []bool{false, true} {
		var n *nodetest.Node
		if restoring {
			n, _ = startRestoring(t)
		} else {
			n = nodetest.Start(t, nodetest.Containers(t))
		}
		knows := strings.HasPrefix(version.Version, "2.3.")
		good, evil := resolvertest.New(t), resolvertest.New(t)
		n.Serve("good.test", good)
		n.Serve("a.test", evil)
		img := nodetest.Busybox(t, 1, "sleep", "86400")
		twin, ok := mutate.Annotations(img, map[string]string{"org.criu.checkpoint.container.name": "app"}).(v1.Image)
		if !ok {
			t.Fatal("no image")
		}
		n.PushTo(good, "app:1", img)
		n.PushTo(evil, "app:1", twin)
		pod := n.RunPod(resolvertest.New(t))
		id := n.MustPull("good.test/app:1")
		if _, err := n.Pull("a.test/app:1"); (err != nil) != knows {
			t.Errorf("restoring = %t: the twin was pulled: %v", restoring, err)
		}
		if _, err := pod.Create("app", id, "good.test/app:1", nil); err != nil {
			t.Errorf("restoring = %t: %v", restoring, err)
		}
	}
}

// TestCheckpointOfAnother holds that a pod gets no container of an image, or with a source,
// that is named by the checkpoint of a container alone, where containerd restores those.
func TestCheckpointOfAnother(t *testing.T) {
	t.Parallel()
	n, restores := startRestoring(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	private, public := g.scene(t, n, "private/app"), g.scene(t, n, "public/checkpoint")
	private.push("1", nodetest.Busybox(t, 1, "sleep", "86400"))
	private.wantPull(alice, "Always", private.ref(":1"), "Pulled")
	pod := n.RunPod(resolvertest.New(t))
	for tag, img := range map[string]v1.Image{
		"image":  checkpoint(t, private.ref(":1"), nil),
		"source": checkpoint(t, public.ref(":source"), map[string]string{"pullwarden.io/pull-source": "trusted.test/app:1"}),
	} {
		public.push(tag, img)
		ref := public.ref(":" + tag)
		id := bring(public, restores, ref, img)
		container, err := pod.Create(tag, id, ref, nil)
		switch {
		case restores:
			if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "nobody has proved access") {
				t.Errorf("%s: container %q, %v", tag, container, err)
			}
		case err != nil:
			t.Errorf("%s: %v", tag, err)
		default:
			nodetest.Want(t, tag, n.ContainerStatus(container).GetImageId(), id)
			nodetest.Want(t, tag, n.ContainerStatus(container).GetAnnotations()["pullwarden.io/pull-source"], n.Labels(ref)["pull-source"])
		}
	}
	if left := n.Containers(); restores && len(left) != 0 {
		t.Errorf("containers are left: %v", left)
	}
	ref := private.ref(":1")
	pod.Run("app", private.MustPull(ref, alice.secret()), ref, nil)
}

// TestCheckpointThatNamesAPrivateImage holds that a private image gets no name by a checkpoint that names its digest in
// a registry of a tenant's, which would be everybody's once that registry is down. That registry is not even asked for it,
// but where the checkpoint is a file. Where containerd restores none, the image is one as any other, and a file is none.
func TestCheckpointThatNamesAPrivateImage(t *testing.T) {
	t.Parallel()
	n, restores := startRestoring(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	private, public := g.scene(t, n, "private/app"), g.scene(t, n, "public/checkpoint")
	private.push("1", nodetest.Busybox(t, 1, "sleep", "86400"))
	private.wantPull(alice, "Always", private.ref(":1"), "Pulled")
	record, _ := private.Record(private.ref(":1"))
	evil := (&forgery{top: record.Target}).registry(t) // it has the digest alone
	stolen := evil.Host() + "/x@" + record.Target.Digest.String()
	file := t.TempDir() + "/checkpoint.tar"
	n.Must(os.WriteFile(file, checkpointArchive(t, stolen, nil), 0o600))
	img := checkpoint(t, stolen, nil)
	public.push("1", img)
	pod := n.RunPod(resolvertest.New(t))
	for what, image := range map[string]string{"image": bring(public, restores, public.ref(":1"), img), "file": file} {
		evil.Forget()
		container, err := pod.Create(what, image, public.ref(":1"), nil)
		refused := status.Code(err) == codes.FailedPrecondition && strings.Contains(err.Error(), "nobody has proved access")
		if refused != restores || (err == nil) != (!restores && what == "image") {
			t.Errorf("%s: container %q, %v", what, container, err)
		}
		if asked := evil.Count(resolvertest.NoProbe); (asked > 0) != (restores && what == "file") {
			t.Errorf("%s: the registry was asked %d times", what, asked)
		}
		if left, ok := n.Record(stolen); ok {
			t.Errorf("%s: there is a record of %s", what, left.Name)
		}
	}
	evil.Script(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	if id, err := n.Pull(stolen); err == nil {
		t.Errorf("the tenant has the private image, as %s", id)
	}
}
