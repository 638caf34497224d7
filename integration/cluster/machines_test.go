// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The fates of nodes: how the installation ends.
const (
	refused = "refused" // pullwarden install fails
	broken  = "broken"  // the node is not Ready afterwards
)

const stockRuntime, ourRuntime = "containerd://2.4.2", "containerd://2.4.2+pullwarden.test"

// machines plays the kubelets of nodes: it ends pods that are bound to them, and says in
// the nodes' status what follows.
type machines struct {
	c *Cluster

	mu    sync.Mutex
	fates map[string]string
	args  []string // of each pod that has run: node and arguments
}

type (
	podList struct {
		Items []pod `json:"items"`
	}
	pod struct {
		Metadata struct {
			Name    string     `json:"name"`
			Deleted *time.Time `json:"deletionTimestamp"`
		} `json:"metadata"`
		Spec struct {
			Node       string `json:"nodeName"`
			Containers []struct {
				Args []string `json:"args"`
			} `json:"containers"`
		} `json:"spec"`
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
)

// newMachines makes nodes, and serves them until the test ends.
func newMachines(c *Cluster, names ...string) *machines {
	m := &machines{c: c, fates: map[string]string{}}
	for _, name := range names {
		m.join(name)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				m.serve()
			}
		}
	}()
	c.t.(*testing.T).Cleanup(func() { close(stop); <-stopped })
	return m
}

func (m *machines) join(name string) {
	m.c.t.Helper()
	m.c.must(http.MethodPost, "/api/v1/nodes", map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]string{"kubernetes.io/os": "linux"}}}, nil)
	if err := m.say(name, true, stockRuntime); err != nil {
		m.c.t.Fatal(err)
	}
}

// say sets the status of a node.
func (m *machines) say(name string, ready bool, runtime string) error {
	status := map[bool]string{true: "True", false: "False"}[ready]
	return m.c.call(http.MethodPatch, "/api/v1/nodes/"+name+"/status", map[string]any{"status": map[string]any{
		"nodeInfo":   map[string]any{"containerRuntimeVersion": runtime},
		"conditions": []any{map[string]any{"type": "Ready", "status": status, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}},
	}}, nil)
}

// serve does what is due. Errors are tried again.
func (m *machines) serve() {
	var pods podList
	if m.c.call(http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods", nil, &pods) != nil {
		return
	}
	for _, p := range pods.Items {
		switch {
		case p.Metadata.Deleted != nil:
			_ = m.c.call(http.MethodDelete, "/api/v1/namespaces/"+namespace+"/pods/"+p.Metadata.Name, map[string]any{"gracePeriodSeconds": 0}, nil)
		case p.Status.Phase == "Pending" && p.Spec.Node != "":
			m.run(p)
		}
	}
}

func (m *machines) run(p pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	args := p.Spec.Containers[0].Args
	fate := m.fates[p.Spec.Node]
	status := map[string]any{"phase": "Succeeded"}
	var err error
	switch {
	case args[0] == "uninstall":
		err = m.say(p.Spec.Node, true, stockRuntime)
	case fate == refused:
		status = map[string]any{"phase": "Failed", "containerStatuses": []any{map[string]any{
			"name": "node", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
			"state": map[string]any{"terminated": map[string]any{"exitCode": 1, "reason": "Error", "message": "the node has another minor"}},
		}}}
	default:
		err = m.say(p.Spec.Node, fate != broken, ourRuntime)
	}
	if err == nil && m.c.call(http.MethodPatch, "/api/v1/namespaces/"+namespace+"/pods/"+p.Metadata.Name+"/status", map[string]any{"status": status}, nil) == nil {
		m.args = append(m.args, p.Spec.Node+" "+strings.Join(args, " "))
	}
}

func (m *machines) set(node, fate string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fates[node] = fate
}

// ran returns the pods that have run, and forgets them.
func (m *machines) ran() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.args = nil }()
	return slices.Clone(m.args)
}
