// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// The parts of a v1.Pod that the tests write.
type (
	object struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
		Spec       podSpec  `json:"spec"`
	}
	metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	podSpec struct {
		Node        string      `json:"nodeName,omitempty"`
		Secrets     []secret    `json:"imagePullSecrets,omitempty"`
		Mount       bool        `json:"automountServiceAccountToken"`
		Links       bool        `json:"enableServiceLinks"`
		HostNetwork bool        `json:"hostNetwork"`
		GracePeriod int         `json:"terminationGracePeriodSeconds"`
		Init        []container `json:"initContainers,omitempty"`
		Containers  []container `json:"containers"`
		Volumes     []volume    `json:"volumes,omitempty"`
	}
	secret struct {
		Name string `json:"name"`
	}
	container struct {
		Name    string        `json:"name"`
		Image   string        `json:"image"`
		Pull    string        `json:"imagePullPolicy"`
		Volumes []volumeMount `json:"volumeMounts,omitempty"`
	}
	volumeMount struct {
		Name string `json:"name"`
		Path string `json:"mountPath"`
	}
	volume struct {
		Name  string      `json:"name"`
		Image imageVolume `json:"image"`
	}
	imageVolume struct {
		Reference string `json:"reference"`
		Pull      string `json:"pullPolicy"`
	}
)

// The parts of a v1.PodStatus that the tests read.
type (
	podStatus struct {
		Init       []containerStatus `json:"initContainerStatuses"`
		Containers []containerStatus `json:"containerStatuses"`
	}
	containerStatus struct {
		Name         string `json:"name"`
		ImageID      string `json:"imageID"` // repository@digest
		RestartCount int    `json:"restartCount"`
		State        struct {
			Running *struct{} `json:"running"`
			Waiting *struct {
				Reason  string `json:"reason"`
				Message string `json:"message"`
			} `json:"waiting"`
		} `json:"state"`
	}
)

// run reports whether the pod has that many containers, and all of them run.
func (s *podStatus) run(containers int) bool {
	waits := func(c containerStatus) bool { return c.State.Running == nil }
	return len(s.Containers) == containers && !slices.ContainsFunc(s.Containers, waits)
}

// object returns the pod as Kubernetes has it.
func (p Pod) object(name string) object {
	o := object{APIVersion: "v1", Kind: "Pod", Metadata: metadata{Name: name, Namespace: cmp.Or(p.Namespace, "default"), Annotations: map[string]string{}}}
	for i := 0; i+1 < len(p.Hints); i += 2 {
		o.Metadata.Annotations[node.LabelPrefix+p.Hints[i]] = p.Hints[i+1]
	}
	o.Spec = podSpec{HostNetwork: true, GracePeriod: 1, Init: p.containers("init", p.Init), Containers: p.containers("app", p.Images)}
	if p.Secret != "" {
		o.Spec.Secrets = []secret{{p.Secret}}
	}
	for i, image := range p.Volumes {
		name := fmt.Sprintf("volume-%d", i)
		o.Spec.Volumes = append(o.Spec.Volumes, volume{name, imageVolume{nodetest.Named(image), p.Pull}})
		o.Spec.Containers[0].Volumes = append(o.Spec.Containers[0].Volumes, volumeMount{name, "/" + name})
	}
	return o
}

func (p Pod) containers(name string, images []string) (all []container) {
	for i, image := range images {
		all = append(all, container{Name: fmt.Sprintf("%s-%d", name, i), Image: nodetest.Named(image), Pull: p.Pull})
	}
	return all
}
