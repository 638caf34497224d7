// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
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

// checkpoint is an image with the checkpoint of a container, as containerd 2.3 reads it,
// that was made of another image.
func checkpoint(t *testing.T, of string, annotations map[string]string) v1.Image {
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
	err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
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

// TestCheckpointOfAnother holds that a pod gets no container of an image, or with a source,
// that is named by the checkpoint of a container alone, where containerd restores those.
func TestCheckpointOfAnother(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	if err := os.WriteFile(bin+"/criu", []byte(criu), 0o700); err != nil {
		t.Fatal(err)
	}
	n := nodetest.Start(t, nodetest.Containers(t), nodetest.CRIRuntime("enable_experimental_restore_via_create = true"),
		nodetest.Env("PATH="+bin+":"+os.Getenv("PATH")))
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	private, public := g.scene(t, n, "private/app"), g.scene(t, n, "public/checkpoint")
	private.push("1", nodetest.Busybox(t, 1, "sleep", "86400"))
	private.wantPull(alice, "Always", private.ref(":1"), "Pulled")
	pod := n.RunPod(resolvertest.New(t))
	restores := strings.HasPrefix(version.Version, "2.3.")
	for tag, img := range map[string]v1.Image{
		"image":  checkpoint(t, private.ref(":1"), nil),
		"source": checkpoint(t, public.ref(":source"), map[string]string{"pullwarden.io/pull-source": "trusted.test/app:1"}),
	} {
		public.push(tag, img)
		ref := public.ref(":" + tag)
		id := public.MustPull(ref)
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
