// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// site is a cluster with the chart on it, and a controller that has only the rights that
// the chart gives it.
type site struct {
	*Cluster
	args []string // of the controller, without the verb
}

// newSite applies the chart, and gets a token for the controller's service account.
func newSite(t *testing.T) *site {
	c := newCluster(t)
	c.makeNamespace(namespace)
	stream := render(t, "--set", "image.repository=registry.test/pullwarden,image.tag=v1,installer.enabled=true", "--no-hooks")
	if err := c.apply(stream, false); err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	c.must(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+release+"-rollout/token", map[string]any{"spec": map[string]any{}}, &answer)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), answer.Status.Token)
	write(t, filepath.Join(dir, "pod.yaml"), nodePod(t, stream))
	return &site{c, []string{
		"--server", c.server, "--token-file", filepath.Join(dir, "token"), "--ca-file", c.caFile, "--namespace", namespace,
		"--name", release + "-rollout", "--pod-template", filepath.Join(dir, "pod.yaml"),
		"--stages", "1,50%,100%", "--max-unavailable", "2", "--interval", "100ms", "--settle-time", "1s",
	}}
}

// controller starts the controller. end kills it, as a node that dies does, and returns
// what it has said.
func (s *site) controller(verb string, args ...string) (wait func() error, end func() string) {
	s.t.Helper()
	log, err := os.CreateTemp(s.t.(*testing.T).TempDir(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(built(s.t, binEnv, "pullwarden-rollout"), slices.Concat([]string{verb}, s.args, args)...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	text := func() string { said, _ := os.ReadFile(log.Name()); return string(said) }
	return func() error {
			if err := cmd.Wait(); err != nil {
				return fmt.Errorf("%w: %s", err, text())
			}
			return nil
		}, func() string {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return text()
		}
}

// record is what the rollout knows of a node.
type record struct {
	Phase  string `json:"phase"`
	Reason string `json:"reason"`
}

// state returns the records, and the summary.
func (s *site) state() (map[string]record, string, error) {
	var held struct {
		Data       map[string]string `json:"data"`
		BinaryData map[string][]byte `json:"binaryData"`
	}
	var state struct {
		Nodes map[string]record `json:"nodes"`
	}
	err := s.call(http.MethodGet, "/api/v1/namespaces/"+namespace+"/configmaps/"+release+"-rollout", nil, &held)
	if packed := held.BinaryData["state.json.gz"]; err == nil && packed != nil {
		var z io.Reader
		if z, err = gzip.NewReader(bytes.NewReader(packed)); err == nil {
			err = json.NewDecoder(z).Decode(&state)
		}
	}
	return state.Nodes, held.Data["summary"], err
}

// wait waits until at least so many nodes are in a phase.
func (s *site) wait(phase string, count int) {
	s.t.Helper()
	s.until(fmt.Sprintf("%d nodes are %s", count, phase), func() error {
		nodes, summary, err := s.state()
		n := 0
		for _, r := range nodes {
			if r.Phase == phase {
				n++
			}
		}
		if err == nil && n < count {
			return fmt.Errorf("%d: %s", n, summary)
		}
		return err
	})
}

// With the rights of the chart, on a stock API server: all nodes in stages, over kills of
// the controller, one that joins later, and all of it taken off again.
func TestRollout(t *testing.T) {
	s := newSite(t)
	m := newMachines(s.Cluster, "a", "b", "c", "d")
	_, end := s.controller("run", "--target", "v1")
	s.wait("Installed", 1)
	end()
	for installed := range 3 {
		_, end = s.controller("run", "--target", "v1")
		s.wait("Installed", installed+2)
		end()
	}
	ran := m.ran()
	if len(ran) < 4 || ran[0] != "a install --root /host --yes" || !slices.Contains(ran[1:3], "b install --root /host --yes") {
		t.Errorf("ran %q", ran)
	}
	m.join("e")
	_, end = s.controller("run", "--target", "v1")
	defer end()
	s.wait("Installed", 5)
	m.ran()
	undone, _ := s.controller("undo", "--target", "v1")
	if err := undone(); err != nil {
		t.Error(err)
	}
	s.wait("Undone", 5)
	if ran := m.ran(); len(ran) != 5 || !slices.ContainsFunc(ran, func(r string) bool { return r == "e uninstall --root /host --yes" }) {
		t.Errorf("ran %q", ran)
	}
}

// The first failure stops a rollout, is told of, and leaves that node as it was.
func TestRolloutStops(t *testing.T) {
	s := newSite(t)
	m := newMachines(s.Cluster, "a", "b", "c", "d", "e", "f")
	m.set("b", broken)
	_, end := s.controller("run", "--target", "v1", "--ready-timeout", "10s")
	s.wait("Failed", 1)
	nodes, summary, err := s.state()
	if err != nil || !strings.Contains(nodes["b"].Reason, "has not been Ready for 1s within 10s") || !strings.HasPrefix(summary, "stopped: failed on b;") {
		t.Errorf("%+v, %s, %v", nodes, summary, err)
	}
	if said := end(); !strings.Contains(said, "node b: Undoing: the node has not been Ready") || !strings.Contains(said, "Installed before, and left so: a") {
		t.Errorf("it said %s", said)
	}
	if ran := m.ran(); ran[len(ran)-1] != "b uninstall --root /host --yes" || len(ran) > 4 {
		t.Errorf("ran %q", ran)
	}
	m.set("b", refused)
	_, end = s.controller("run", "--target", "v2")
	defer end()
	s.wait("Failed", 1)
	s.until("b is refused", func() error {
		nodes, _, err := s.state()
		if !strings.Contains(nodes["b"].Reason, "another minor") {
			return fmt.Errorf("%+v, %w", nodes["b"], err)
		}
		return nil
	})
}

// The controller may do what it needs, and no more.
func TestRightsOfTheRollout(t *testing.T) {
	s := newSite(t)
	token, err := os.ReadFile(s.args[3])
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]int{
		"GET /api/v1/nodes":                             http.StatusOK,
		"GET /api/v1/namespaces/" + namespace + "/pods": http.StatusOK,
		"GET /api/v1/namespaces/" + namespace + "/configmaps/" + release + "-rollout":     http.StatusOK,
		"GET /api/v1/namespaces/" + namespace + "/configmaps/" + release + "-node-pod":    http.StatusForbidden,
		"DELETE /api/v1/namespaces/" + namespace + "/configmaps/" + release + "-rollout":  http.StatusForbidden,
		"GET /api/v1/namespaces/" + namespace + "/secrets":                                http.StatusForbidden,
		"GET /api/v1/namespaces/kube-system/pods":                                         http.StatusForbidden,
		"POST /api/v1/namespaces/default/pods":                                            http.StatusForbidden,
		"POST /api/v1/namespaces/" + namespace + "/serviceaccounts/" + release + "/token": http.StatusForbidden,
		"PATCH /api/v1/nodes/a":  http.StatusForbidden,
		"DELETE /api/v1/nodes/a": http.StatusForbidden,
	} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequest(method, s.server+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+string(token))
		req.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			req.Header.Set("Content-Type", "application/merge-patch+json")
		}
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%s is %s", request, resp.Status)
		}
	}
}
