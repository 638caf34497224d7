// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// PauseImage is the image of pods on nodes with Containers.
const PauseImage = "pause.test/pause:1"

// Containers lets the node run containers: with an image for pods from a
// registry of the test. containerd finds its shim beside its own binary, also
// for containers that it meets when it starts again. It ends the test where
// there is nothing to run containers with.
func Containers(t testing.TB) Option {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(binary)
	if _, err := os.Stat(filepath.Join(dir, "containerd-shim-runc-v2")); err != nil {
		t.Fatalf("no shim beside the daemon: %v\nbuild it with: go build -o %s/ github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2", err, dir)
	}
	if _, err := exec.LookPath("runc"); err != nil {
		t.Fatalf("%v\ninstall it with: apt-get install runc", err)
	}
	return Tables(fmt.Sprintf(`
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %q
`, PauseImage))
}

// Pod is a pod on the host's network.
type Pod struct {
	n       *Node
	id      string
	handler string
	config  *runtimeapi.PodSandboxConfig
}

// RunPod runs a pod that ends with the test. Its image, PauseImage, comes from
// that registry.
func (n *Node) RunPod(pause *resolvertest.Registry) *Pod {
	n.T.Helper()
	return n.RunPodOf("", pause)
}

// RunPodOf runs a pod of a runtime handler as RunPod does; "" is the default one.
func (n *Node) RunPodOf(handler string, pause *resolvertest.Registry) *Pod {
	n.T.Helper()
	n.PushTo(pause, "pause:1", Busybox(n.T, 0, "sleep", "86400"))
	return n.runPod(handler, n.Server(pause))
}

// RunPodWith runs a pod that ends with the test. Its image, PauseImage, comes by
// that hosts.toml.
func (n *Node) RunPodWith(hostsTOML string) *Pod {
	n.T.Helper()
	return n.runPod("", hostsTOML)
}

func (n *Node) runPod(handler, hostsTOML string) *Pod {
	n.T.Helper()
	n.WriteHosts("pause.test", hostsTOML)
	p := &Pod{n: n, handler: handler, config: &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Uid: "uid", Namespace: "default"},
		LogDirectory: n.Path("logs"),
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: hostNetwork(),
		}},
	}}
	n.Must(os.MkdirAll(n.Path("logs"), 0o700))
	n.T.Cleanup(p.remove)
	resp, err := n.runtime().RunPodSandbox(n.T.Context(), &runtimeapi.RunPodSandboxRequest{Config: p.config, RuntimeHandler: handler})
	if err != nil {
		n.T.Fatalf("run a pod: %v", err)
	}
	p.id = resp.GetPodSandboxId()
	return p
}

// RunBeside runs another pod of the same runtime handler, which has annotations of its own, and ends with the test.
func (p *Pod) RunBeside(name string, annotations map[string]string) error {
	config := proto.CloneOf(p.config)
	config.Metadata = &runtimeapi.PodSandboxMetadata{Name: name, Uid: name, Namespace: "default"}
	config.Annotations = annotations
	_, err := p.n.runtime().RunPodSandbox(p.n.T.Context(), &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: p.handler})
	return err
}

func hostNetwork() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER}
}

func (n *Node) runtime() runtimeapi.RuntimeServiceClient {
	return runtimeapi.NewRuntimeServiceClient(n.Conn)
}

// remove ends the pod and its containers, also those that a failed test has
// left.
func (p *Pod) remove() {
	defer p.n.KillShims()
	if !p.n.Alive() || p.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.n.T.Context()), node.StartLimit)
	defer cancel()
	_, err := p.n.runtime().StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id})
	if err == nil {
		_, err = p.n.runtime().RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id})
	}
	if err != nil {
		p.n.T.Errorf("remove the pod: %v", err)
	}
}

// KillShims ends the shims that were started for this daemon, by the socket
// that they were told of, and what they run.
func (n *Node) KillShims() {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		n.T.Error(err)
	}
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(command), "\x00-address\x00"+n.Address()+"\x00") {
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

// Pulls has a pull be for the pod, as a kubelet says it, which names no runtime handler.
func (p *Pod) Pulls() node.PullOption {
	return func(r *runtimeapi.PullImageRequest) { r.SandboxConfig.Metadata = p.config.GetMetadata() }
}

// Run creates and starts a container of an image ID, as a kubelet does for the
// image that its user has named. It returns the container's ID.
func (p *Pod) Run(name, imageID, userSpecified string, annotations map[string]string) string {
	p.n.T.Helper()
	id, err := p.Create(name, imageID, userSpecified, annotations)
	if err == nil {
		_, err = p.n.runtime().StartContainer(p.n.T.Context(), &runtimeapi.StartContainerRequest{ContainerId: id})
	}
	if err != nil {
		p.n.T.Fatalf("run a container of %s: %v", userSpecified, err)
	}
	return id
}

// CreateUnpacking creates a container of an image that is unpacked for other pods alone. It
// reports whether there is one: where layers are discarded, there must be none.
func (p *Pod) CreateUnpacking(name, imageID, userSpecified string) (created bool) {
	p.n.T.Helper()
	discards := p.n.Options.Discards()
	if discards {
		p.n.CollectGarbage() // else containerd does so in the background
	}
	_, err := p.Create(name, imageID, userSpecified, nil)
	if discards {
		if err == nil {
			p.n.T.Error("a container of layers that are discarded")
		}
		return false
	}
	p.n.Must(err)
	return true
}

// Volume is an image that a container has as a volume (KEP-4639), by its ID and the name that its user
// has asked for.
type Volume struct {
	ImageID, UserSpecified string
	At                     string // in the container; "" = a path of its own
	SubPath                string // of the image; "" = all of it
}

// Create creates a container as Run does, with volumes. The error is CRI's.
func (p *Pod) Create(name, imageID, userSpecified string, annotations map[string]string, volumes ...Volume) (id string, err error) {
	var mounts []*runtimeapi.Mount
	for i, v := range volumes {
		mounts = append(mounts, &runtimeapi.Mount{
			ContainerPath: cmp.Or(v.At, fmt.Sprintf("/volume%d", i)), Readonly: true,
			Image: &runtimeapi.ImageSpec{Image: v.ImageID, UserSpecifiedImage: v.UserSpecified}, ImageSubPath: v.SubPath,
		})
	}
	return p.create(name, &runtimeapi.ContainerConfig{
		Image:       &runtimeapi.ImageSpec{Image: imageID, UserSpecifiedImage: userSpecified},
		Annotations: annotations,
		Mounts:      mounts,
	})
}

// CreateCommand creates a container as Create does, with a command, as the specification of a pod may have one.
func (p *Pod) CreateCommand(name, imageID, userSpecified string, command ...string) (id string, err error) {
	return p.create(name, &runtimeapi.ContainerConfig{
		Image:   &runtimeapi.ImageSpec{Image: imageID, UserSpecifiedImage: userSpecified},
		Command: command,
	})
}

// create creates a container as configured, with what all have.
func (p *Pod) create(name string, config *runtimeapi.ContainerConfig) (id string, err error) {
	config.Metadata = &runtimeapi.ContainerMetadata{Name: name}
	config.LogPath = name + ".log"
	config.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: hostNetwork(),
	}}
	created, err := p.n.runtime().CreateContainer(p.n.T.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.id, SandboxConfig: p.config, Config: config,
	})
	return created.GetContainerId(), err
}

// Containers lists the IDs of the node's containers, but for those of pods themselves.
func (n *Node) Containers() (ids []string) {
	n.T.Helper()
	resp, err := n.runtime().ListContainers(n.T.Context(), &runtimeapi.ListContainersRequest{})
	n.Must(err)
	for _, c := range resp.GetContainers() {
		ids = append(ids, c.GetId())
	}
	return ids
}

// ContainerStatus returns what CRI says of a container.
func (n *Node) ContainerStatus(id string) *runtimeapi.ContainerStatus {
	n.T.Helper()
	resp, err := n.runtime().ContainerStatus(n.T.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		n.T.Fatalf("status of container %s: %v", id, err)
	}
	return resp.GetStatus()
}

// ContainerEvents returns what CRI tells, from now on, of containers that are created, started and stopped.
func (n *Node) ContainerEvents() <-chan *runtimeapi.ContainerEventResponse {
	n.T.Helper()
	stream, err := n.runtime().GetContainerEvents(n.T.Context(), &runtimeapi.GetEventsRequest{})
	n.Must(err)
	all := make(chan *runtimeapi.ContainerEventResponse, 100)
	go func() {
		defer close(all)
		for {
			event, err := stream.Recv()
			if err != nil {
				return
			}
			all <- event
		}
	}()
	return all
}
