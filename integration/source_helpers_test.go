// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// pauseImage is what the daemons of the tests that run containers use for pods.
const pauseImage = "pause.test/pause:1"

// containers lets the daemon run containers: with an image for pods from a
// registry of the test. containerd finds its shim beside its own binary, also
// for containers that it meets when it starts again.
func containers(t testing.TB) option {
	t.Helper()
	wantShim(t)
	return tables(fmt.Sprintf(`
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %q
`, pauseImage))
}

// wantShim ends the test where there is nothing to run containers with.
func wantShim(t testing.TB) {
	t.Helper()
	dir := filepath.Dir(binary)
	if _, err := os.Stat(filepath.Join(dir, "containerd-shim-runc-v2")); err != nil {
		t.Fatalf("no shim beside the daemon: %v\nbuild it with: go build -o %s/ github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", err, dir)
	}
	if _, err := exec.LookPath("runc"); err != nil {
		t.Fatalf("%v\ninstall it with: apt-get install runc", err)
	}
}

// busybox makes an image of the static busybox of this machine, which runs the
// command. Another seed gives another image.
func busybox(t testing.TB, seed int64, command ...string) v1.Image {
	t.Helper()
	binary, err := os.ReadFile("/bin/busybox")
	if err == nil {
		err = isStatic(binary)
	}
	if err != nil {
		t.Fatalf("%v\ninstall it with: apt-get install busybox-static", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "busybox", Mode: 0o755, Size: int64(len(binary))})
	if err == nil {
		_, err = w.Write(binary)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
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

// isStatic returns an error for a program that takes libraries to run.
func isStatic(binary []byte) error {
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return errors.New("the busybox of this machine is not a static one")
	}
	return nil
}

// pod is a pod on the host's network.
type pod struct {
	d      *daemon
	id     string
	config *runtimeapi.PodSandboxConfig
}

// runPod runs a pod that ends with the test. Its image comes from pause.
func (d *daemon) runPod(pause *resolvertest.Registry) *pod {
	d.t.Helper()
	d.origin("pause.test", pause)
	d.push(pause, "pause:1", busybox(d.t, 0, "sleep", "86400"))
	p := &pod{d: d, config: &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Uid: "uid", Namespace: "default"},
		LogDirectory: d.path("logs"),
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: hostNetwork(),
		}},
	}}
	d.mkdir(d.path("logs"))
	d.t.Cleanup(p.remove)
	resp, err := d.runtime().RunPodSandbox(d.t.Context(), &runtimeapi.RunPodSandboxRequest{Config: p.config})
	if err != nil {
		d.fatal("run a pod: %v", err)
	}
	p.id = resp.GetPodSandboxId()
	return p
}

func hostNetwork() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER}
}

func (d *daemon) runtime() runtimeapi.RuntimeServiceClient {
	return runtimeapi.NewRuntimeServiceClient(d.conn)
}

// remove ends the pod and its containers. What is left of them after a test
// that has failed does not outlive it either.
func (p *pod) remove() {
	defer p.d.killShims()
	if !p.d.alive() || p.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.d.t.Context()), startLimit)
	defer cancel()
	_, err := p.d.runtime().StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id})
	if err == nil {
		_, err = p.d.runtime().RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id})
	}
	if err != nil {
		p.d.t.Errorf("remove the pod: %v", err)
	}
}

// killShims ends the shims that were started for this daemon, by the socket
// that they were told of, and what they run.
func (d *daemon) killShims() {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		d.t.Error(err)
	}
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(command), "\x00-address\x00"+d.process.Address()+"\x00") {
			continue
		}
		shim := filepath.Base(filepath.Dir(path))
		children, _ := os.ReadFile(filepath.Join("/proc", shim, "task", shim, "children"))
		for _, pid := range append(strings.Fields(string(children)), shim) {
			if id, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(id, syscall.SIGKILL)
			}
		}
	}
}

// run creates and starts a container of an image ID, as a kubelet does for the
// image that its user has named. It returns the container's ID.
func (p *pod) run(name, imageID, userSpecified string, annotations map[string]string) string {
	p.d.t.Helper()
	ctx := p.d.t.Context()
	created, err := p.d.runtime().CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config,
		Config: &runtimeapi.ContainerConfig{
			Metadata:    &runtimeapi.ContainerMetadata{Name: name},
			Image:       &runtimeapi.ImageSpec{Image: imageID, UserSpecifiedImage: userSpecified},
			Annotations: annotations,
			LogPath:     name + ".log",
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: hostNetwork(),
			}},
		},
	})
	if err == nil {
		_, err = p.d.runtime().StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()})
	}
	if err != nil {
		p.d.fatal("run a container of %s: %v", userSpecified, err)
	}
	return created.GetContainerId()
}

// containerStatus returns what CRI says of a container.
func (d *daemon) containerStatus(id string) *runtimeapi.ContainerStatus {
	d.t.Helper()
	resp, err := d.runtime().ContainerStatus(d.t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		d.fatal("status of container %s: %v", id, err)
	}
	return resp.GetStatus()
}

// in returns the daemon for a part of the test.
func (d *daemon) in(t testing.TB) *daemon {
	part := *d
	part.t = t
	return &part
}

// ownAnnotations returns those annotations that are pullwarden's, without the
// prefix.
func ownAnnotations(annotations map[string]string) map[string]string {
	own := map[string]string{}
	for k, v := range annotations {
		if name, ok := strings.CutPrefix(k, labelPrefix); ok {
			own[name] = v
		}
	}
	return own
}

// importImage imports an image from an archive under that name.
func (d *daemon) importImage(ref string, img v1.Image) {
	d.t.Helper()
	dir := d.t.TempDir()
	archive, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = archive.AppendImage(img, layout.WithAnnotations(map[string]string{"io.containerd.image.name": ref}))
	}
	if err != nil {
		d.t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		d.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.client.Import(d.t.Context(), &b); err != nil {
		d.fatal("import %s: %v", ref, err)
	}
}
