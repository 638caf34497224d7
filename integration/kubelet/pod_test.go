// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The pull policies of Kubernetes.
const (
	Always       = "Always"
	IfNotPresent = "IfNotPresent"
	Never        = "Never"
)

// Pod is a pod on the host's network, whose containers run until they are stopped.
type Pod struct {
	Images    []string // of its containers, as "repository:tag" of registry.test
	Init      []string // of containers that run before them; their images end by themselves
	Volumes   []string // images that are volumes of the first container
	Pull      string   // the policy of all of them
	Hints     []string // key, value, key, value, … without pullwarden's prefix
	Namespace string   // default: default
	Secret    string   // its pull secret; "" for none
}

// app is a pod with one container.
func app(image, pull string, hints ...string) Pod {
	return Pod{Images: []string{image}, Pull: pull, Hints: hints}
}

// Running is a pod that a kubelet was told to run.
type Running struct {
	k         *Kubelet
	namespace string
	given     string // its name where it was given to the kubelet
	name      string // that the kubelet has it by
}

// Run gives the kubelet a pod: by the API server, or as a file where there is none.
func (k *Kubelet) Run(p Pod) *Running {
	k.T.Helper()
	k.pods++
	o := p.object(fmt.Sprintf("pod-%d", k.pods))
	r := &Running{k, o.Metadata.Namespace, o.Metadata.Name, o.Metadata.Name}
	if k.cluster != nil {
		k.Node.Must(k.cluster.put(o))
		return r
	}
	r.name += "-" + nodeName
	k.Node.Write(r.manifest(), marshal(k.T, o))
	return r
}

func (r *Running) manifest() string { return filepath.Join(manifests, r.given+".json") }

// Remove takes the pod away and waits until its containers are gone.
func (r *Running) Remove() {
	r.k.T.Helper()
	if r.k.cluster != nil {
		r.k.Node.Must(r.k.cluster.remove(r.namespace, r.given))
	} else {
		r.k.Node.Must(os.Remove(r.manifest()))
	}
	r.k.until(r.name+" is gone", func() error {
		if left := r.containers(); len(left) > 0 {
			return fmt.Errorf("%d containers are left", len(left))
		}
		return nil
	})
}

// WantStarted waits until each container of the pod runs, from these digests.
func (r *Running) WantStarted(digests ...digest.Digest) {
	r.k.T.Helper()
	r.wait(fmt.Sprintf("runs from %v", digests), func(s podStatus) bool { return s.run(len(digests)) })
	r.wantDigests(digests...)
}

// startedFrom waits until the pod's one container runs, and gives an error where
// that is not from the digest.
func (r *Running) startedFrom(d digest.Digest) error {
	r.k.T.Helper()
	r.wait("runs", func(s podStatus) bool { return s.run(1) })
	return r.digestsDiffer(d)
}

// wantDigests holds which digests the containers run from, in the order of their names.
func (r *Running) wantDigests(digests ...digest.Digest) {
	r.k.T.Helper()
	if err := r.digestsDiffer(digests...); err != nil {
		r.k.T.Error(err)
	}
}

func (r *Running) digestsDiffer(digests ...digest.Digest) error {
	r.k.T.Helper()
	pods, err := r.k.list()
	for i, c := range pods[r.name].Containers {
		if !strings.HasSuffix(c.ImageID, "@"+digests[i].String()) {
			err = errors.Join(err, fmt.Errorf("%s of %s runs from %s, want %s", c.Name, r.name, c.ImageID, digests[i]))
		}
	}
	return err
}

// WantRestarted waits until the pod's one container runs from that digest, after
// that many restarts.
func (r *Running) WantRestarted(times int, d digest.Digest) {
	r.k.T.Helper()
	r.wait(fmt.Sprintf("was restarted %d times", times), func(s podStatus) bool {
		return s.run(1) && s.Containers[0].RestartCount == times
	})
	r.wantDigests(d)
}

// WantWaiting waits until a container of the pod waits for that reason, with these
// words in its message.
func (r *Running) WantWaiting(reason string, words ...string) {
	r.k.T.Helper()
	r.wait("waits for "+reason, func(s podStatus) bool {
		return slices.ContainsFunc(slices.Concat(s.Init, s.Containers), func(c containerStatus) bool {
			w := c.State.Waiting
			return w != nil && w.Reason == reason && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(w.Message, word) })
		})
	})
}

// WantDenied waits until the pod was refused its image.
func (r *Running) WantDenied() {
	r.k.T.Helper()
	r.wait("is refused its image", func(s podStatus) bool {
		if len(s.Containers) != 1 {
			return false
		}
		if s.Containers[0].State.Running != nil {
			r.k.T.Fatalf("%s runs from %s", r.name, s.Containers[0].ImageID)
		}
		w := s.Containers[0].State.Waiting
		return w != nil && slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ErrImageNeverPull"}, w.Reason)
	})
}

// wait waits until the kubelet says of the pod what ok wants.
func (r *Running) wait(what string, ok func(podStatus) bool) {
	r.k.T.Helper()
	r.k.until(r.name+" "+what, func() error {
		pods, err := r.k.list()
		if err != nil {
			return err
		}
		status, known := pods[r.name]
		if !known || !ok(status) {
			return fmt.Errorf("the kubelet says %s", marshal(r.k.T, status))
		}
		return nil
	})
}

// Crash kills the containers of the pod. The kubelet starts them again.
func (r *Running) Crash() {
	r.k.T.Helper()
	for _, c := range r.containers() {
		_, err := r.k.runtime().StopContainer(r.k.T.Context(), &runtimeapi.StopContainerRequest{ContainerId: c.GetId()})
		r.k.Node.Must(err)
	}
}

// Read returns the content of a file that the pod's first container sees; "" for none.
func (r *Running) Read(path string) string {
	r.k.T.Helper()
	resp, err := r.k.runtime().ContainerStatus(r.k.T.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: r.containers()[0].GetId(), Verbose: true})
	r.k.Node.Must(err)
	var info struct{ Pid int }
	r.k.Node.Must(json.Unmarshal([]byte(resp.GetInfo()["info"]), &info))
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/root/%s", info.Pid, path))
	return string(data)
}

// containers returns those of the pod that run, in the order of their names: CRI's has
// none.
func (r *Running) containers() []*runtimeapi.Container {
	r.k.T.Helper()
	resp, err := r.k.runtime().ListContainers(r.k.T.Context(), &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{"io.kubernetes.pod.name": r.name},
	}})
	r.k.Node.Must(err)
	return slices.SortedFunc(slices.Values(resp.GetContainers()), func(a, b *runtimeapi.Container) int {
		return strings.Compare(a.GetMetadata().GetName(), b.GetMetadata().GetName())
	})
}

func (k *Kubelet) runtime() runtimeapi.RuntimeServiceClient {
	return runtimeapi.NewRuntimeServiceClient(k.Node.Conn)
}
