// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"context"
	"errors"
	"maps"
	"os"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// everywhere has the policy hold at every start, of all images.
const everywhere = "[[rule]]\nimages = ['**']\npolicy = 'IfDigestChanged'\ngovern = 'Starts'\n"

// errNeverPull is the kubelet's ErrImageNeverPull.
var errNeverPull = errors.New("ErrImageNeverPull")

// newNode starts a node with a rule file.
func newNode(t testing.TB, rules string, opts ...nodetest.Option) *nodetest.Node {
	t.Helper()
	n := nodetest.New(t, opts...)
	n.WriteRules("10.toml", rules)
	return n
}

// pod is a pod as its kubelet has it.
type pod struct {
	*nodetest.Node
	namespace, name string
	annotations     map[string]string
	secrets         []node.PullOption // one pull each
	handler         string            // of its runtime; "" = the default one
	sandbox         string            // its ID; "" = there is none
}

// newPod returns a pod that the kubelet has just seen for the first time, which puts
// that into its annotations.
func newPod(n *nodetest.Node, namespace, name string, annotations ...string) *pod {
	p := &pod{Node: n, namespace: namespace, name: name, annotations: map[string]string{
		"kubernetes.io/config.source": "api",
	}}
	for i := 0; i+1 < len(annotations); i += 2 {
		p.annotations[annotations[i]] = annotations[i+1]
	}
	p.seenAgain()
	return p
}

// seenAgain has a restarted kubelet see the pod for the first time.
func (p *pod) seenAgain() {
	p.annotations = maps.Clone(p.annotations)
	p.annotations["kubernetes.io/config.seen"] = time.Now().Format(time.RFC3339Nano)
}

// asks returns the ID of an image as the kubelet is told of it; "" for none. It asks with
// the pod's annotations.
func (p *pod) asks(ref string) (id string) {
	p.T.Helper()
	response, err := p.Images.ImageStatus(p.T.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref, Annotations: p.annotations}})
	if err != nil {
		p.T.Errorf("%s asks for %s: %v", p.name, ref, err) // pods start at the same time, too
	}
	return response.GetImage().GetId()
}

// wants holds what the pod is told in questions that follow each other.
func (p *pod) wants(ref string, there ...bool) {
	p.T.Helper()
	for i, want := range there {
		if got := p.asks(ref) != ""; got != want {
			p.T.Errorf("%s is told that %s is there: %v, in question %d; want %v", p.name, ref, got, i+1, want)
		}
	}
}

// pulls tries to pull with each secret until one does, and asks for its size then.
func (p *pod) pulls(ref string) (id string, err error) {
	p.T.Helper()
	secrets := p.secrets
	if len(secrets) == 0 {
		secrets = []node.PullOption{node.Auth(nil)}
	}
	var errs []error
	for _, secret := range secrets {
		var pairs []string
		for k, v := range p.annotations {
			pairs = append(pairs, k, v)
		}
		id, err := p.Pull(ref, secret, node.Pod(p.namespace, p.name), node.Annotations(pairs...))
		if err == nil {
			p.wants(ref, true) // the size
			return id, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// starts does what a kubelet does for the image of a container, by its
// imagePullPolicy.
func (p *pod) starts(imagePullPolicy, ref string) (id string, err error) {
	p.T.Helper()
	if imagePullPolicy != "Always" {
		id = p.asks(ref)
	}
	switch {
	case id != "":
		return id, nil
	case imagePullPolicy == "Never":
		return "", errNeverPull
	}
	return p.pulls(ref)
}

// mustStart starts a container with imagePullPolicy: IfNotPresent, and holds the
// decision that this takes; "" for none.
func (p *pod) mustStart(ref, outcome string) (id string) {
	p.T.Helper()
	mark := p.Mark()
	id, err := p.starts("IfNotPresent", ref)
	if err != nil {
		p.T.Fatalf("%s does not start: %v", p.name, err)
	}
	got := ""
	for _, d := range p.Decisions(mark, ref) {
		got += d.Outcome
	}
	nodetest.Want(p.T, "the decision for "+p.name, got, outcome)
	return id
}

// run makes the pod's sandbox, which ends with the test.
func (p *pod) run() {
	p.T.Helper()
	p.Must(os.MkdirAll(p.Path("logs"), 0o700))
	p.T.Cleanup(func() { p.ends(context.WithoutCancel(p.T.Context())) })
	response, err := p.cri().RunPodSandbox(p.T.Context(), &runtimeapi.RunPodSandboxRequest{Config: p.config(), RuntimeHandler: p.handler})
	if err != nil {
		p.T.Fatalf("run pod %s: %v", p.name, err)
	}
	p.sandbox = response.GetPodSandboxId()
}

// config is that of the pod's sandbox.
func (p *pod) config() *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: p.name, Uid: p.name, Namespace: p.namespace},
		Annotations:  p.annotations,
		LogDirectory: p.Path("logs"),
		Linux:        &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: hostNetwork()}},
	}
}

// creates has a container of an image made in the pod.
func (p *pod) creates(name, id string, mounts ...*runtimeapi.Mount) error {
	_, err := p.cri().CreateContainer(p.T.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.sandbox, SandboxConfig: p.config(),
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name},
			Image:    &runtimeapi.ImageSpec{Image: id},
			Mounts:   mounts,
			Linux:    &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: hostNetwork()}},
		},
	})
	return err
}

func hostNetwork() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER}
}

func (p *pod) cri() runtimeapi.RuntimeServiceClient {
	return runtimeapi.NewRuntimeServiceClient(p.Conn)
}

// ends removes the pod, as a kubelet does.
func (p *pod) ends(ctx context.Context) {
	p.T.Helper()
	if p.sandbox == "" || !p.Alive() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, node.StartLimit)
	defer cancel()
	_, err := p.cri().StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.sandbox})
	if err == nil {
		_, err = p.cri().RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.sandbox})
	}
	if err != nil {
		p.T.Errorf("remove pod %s: %v", p.name, err)
	}
	p.sandbox = ""
}

// withPods is a node that runs pods.
func withPods(t testing.TB, rules string, opts ...nodetest.Option) *nodetest.Node {
	t.Helper()
	n := newNode(t, rules, append([]nodetest.Option{nodetest.Containers(t)}, opts...)...)
	n.PushTo(n.Registry, "pause:1", nodetest.Busybox(t, 0, "sleep", "86400"))
	n.WriteHosts("pause.test", n.Server(n.Registry))
	t.Cleanup(n.KillShims)
	return n
}
