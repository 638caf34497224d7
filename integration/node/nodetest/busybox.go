// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Busybox makes an image of the static busybox of this machine, which runs the
// command. Another seed gives another image.
func Busybox(t testing.TB, seed int64, command ...string) v1.Image {
	t.Helper()
	layer, err := busyboxLayer()
	if err != nil {
		t.Fatal(err)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: append([]string{"/busybox"}, command...), Labels: map[string]string{"seed": fmt.Sprint(seed)}},
	})
	if err == nil {
		img, err = mutate.AppendLayers(img, layer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// busyboxLayer has the program alone.
func busyboxLayer() (v1.Layer, error) {
	program, err := os.ReadFile("/bin/busybox")
	if err == nil {
		err = isStatic(program)
	}
	if err != nil {
		return nil, fmt.Errorf("%w\ninstall it with: apt-get install busybox-static", err)
	}
	return FileLayer("busybox", 0o755, program)
}

// FileLayer returns a layer with one file.
func FileLayer(name string, mode int64, content []byte) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))})
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}

// isStatic returns an error for a program that takes libraries to run.
func isStatic(program []byte) error {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return errors.New("the busybox of this machine is not a static one")
	}
	return nil
}
