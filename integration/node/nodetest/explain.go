// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/plugin/api"
)

// Explain returns the outcome that pullwarden explain --ask foresees of a pull. It asks
// the registry what the pull would ask. Of credentials it knows those that
// node.Credentials sets.
func (n *Node) Explain(ref string, opts ...node.PullOption) (outcome string) {
	n.T.Helper()
	pull := &runtimeapi.PullImageRequest{
		Image:         &runtimeapi.ImageSpec{Annotations: map[string]string{}},
		SandboxConfig: &runtimeapi.PodSandboxConfig{Annotations: map[string]string{}},
	}
	for _, opt := range append([]node.PullOption{node.Pod("default", "pod")}, opts...) {
		opt(pull)
	}
	r := api.ExplainRequest{
		Reference: ref, Namespace: pull.GetSandboxConfig().GetMetadata().GetNamespace(),
		RuntimeHandler: pull.GetImage().GetRuntimeHandler(), Annotations: pull.GetImage().GetAnnotations(), Ask: true,
	}
	if a := pull.GetAuth(); a != nil {
		r.Auth = &api.Auth{Username: a.GetUsername(), Password: a.GetPassword()}
	}
	x, err := api.Explain(n.T.Context(), n.Conn, r)
	n.Must(err)
	return x.Outcome
}
