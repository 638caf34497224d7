// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	chart     = "../../deploy/helm/pullwarden"
	namespace = "pullwarden"
	release   = "pw"
)

// helm runs helm, and returns what it prints. The error has that, too.
func helm(t testing.TB, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(built(t, toolsEnv, "helm"), args...)
	home := t.TempDir()
	cmd.Env = []string{"HOME=" + home, "KUBECONFIG=" + filepath.Join(home, "none")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// render returns the manifests of the chart, with those of hooks.
func render(t testing.TB, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", release, chart, "--namespace", namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// manifest is an object of the API, as text and by what its path is made of.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	text string
}

// manifests splits a stream of YAML documents.
func manifests(t testing.TB, stream string) (all []manifest) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+stream, "\n---") {
		m := manifest{text: document}
		if err := yaml.Unmarshal([]byte(document), &m); err != nil {
			t.Fatalf("%v in %s", err, document)
		}
		if m.Kind != "" {
			all = append(all, m)
		}
	}
	return all
}

// path returns where the API server has it.
func (m *manifest) path() string {
	base := "/apis/" + m.APIVersion
	if m.APIVersion == "v1" {
		base = "/api/v1"
	}
	if m.Metadata.Namespace != "" {
		base += "/namespaces/" + m.Metadata.Namespace
	}
	plural := strings.ToLower(m.Kind) + "s"
	if strings.HasSuffix(m.Kind, "y") {
		plural = strings.TrimSuffix(plural, "ys") + "ies"
	}
	return base + "/" + plural + "/" + m.Metadata.Name
}

// apply applies manifests, strictly: a field that the API does not know is an error. dry
// changes nothing.
func (c *Cluster) apply(stream string, dry bool) error {
	query := "?fieldManager=test&force=true&fieldValidation=Strict"
	if dry {
		query += "&dryRun=All"
	}
	var errs []error
	for _, m := range manifests(c.t, stream) {
		errs = append(errs, c.call(http.MethodPatch, m.path()+query, m.text, nil))
	}
	return errors.Join(errs...)
}

// makeNamespace makes a namespace that pods of the chart may run in.
func (c *Cluster) makeNamespace(name string) {
	c.t.Helper()
	c.must(http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{
		"name": name, "labels": map[string]string{"pod-security.kubernetes.io/enforce": "privileged"},
	}}, nil)
}

// The chart is free of mistakes by Helm's own measure and by the API server's, with each
// file of values.
func TestChart(t *testing.T) {
	c := newCluster(t)
	c.makeNamespace(namespace)
	c.must(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts", map[string]any{"metadata": map[string]any{"name": release + "-node"}}, nil)
	values, err := filepath.Glob(filepath.Join(chart, "ci", "*-values.yaml"))
	if err != nil || len(values) < 4 {
		t.Fatalf("%q, %v", values, err)
	}
	for _, file := range values {
		if out, err := helm(t, "lint", "--strict", chart, "--values", file); err != nil {
			t.Errorf("%s: %v, %s", file, err, out)
		}
		stream := render(t, "--values", file)
		if err := c.apply(stream, true); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if pod := nodePod(t, stream); pod != "" {
			pod = "apiVersion: v1\nkind: Pod\n" + strings.Replace(pod, "metadata:\n", "metadata:\n  name: node\n  namespace: "+namespace+"\n", 1)
			if err := c.apply(pod, true); err != nil {
				t.Errorf("%s: the pod of a node: %v", file, err)
			}
			if !strings.Contains(pod, "\n  terminationGracePeriodSeconds: 180 ") {
				t.Errorf("%s: a run that is ended has no time to go back:\n%s", file, pod)
			}
		}
	}
}

// nodePod returns the pod of a node that manifests have in a ConfigMap; "" = none.
func nodePod(t testing.TB, stream string) string {
	t.Helper()
	for _, m := range manifests(t, stream) {
		var held struct {
			Data map[string]string `json:"data"`
		}
		if m.Kind == "ConfigMap" && strings.HasSuffix(m.Metadata.Name, "-node-pod") {
			if err := yaml.Unmarshal([]byte(m.text), &held); err != nil {
				t.Fatal(err)
			}
			return held.Data["pod.yaml"]
		}
	}
	return ""
}

// A value that is wrong is named, with what is allowed.
func TestWrongValues(t *testing.T) {
	for set, want := range map[string][]string{
		"image.repository=":             {"image", "repository"},
		"image.tag=":                    {"image"},
		"image.digest=sha256:x":         {"/image/digest", "sha256:[0-9a-f]{64}"},
		"image.pullPolicy=Sometimes":    {"/image/pullPolicy", "'Always', 'IfNotPresent', 'Never'"},
		"imagee.tag=v1":                 {"imagee", "additional"},
		"installer.stages={1,0%}":       {"/installer/stages/1", "does not match"},
		"installer.stages={}":           {"/installer/stages", "does not match"},
		"installer.maxUnavailable=lots": {"/installer/maxUnavailable", "[1-9][0-9]"},
		"installer.settleTime=soon":     {"/installer/settleTime", "[hms]"},
		"installer.retry=-1":            {"/installer/retry", "0"},
		"rules.file=../50.toml":         {"/rules/file", "toml"},
		"rules.directory=/etc/../root":  {"/rules/directory"},
		`rules.files.\.\./x\.toml=#`:    {"rules.files", "../x.toml", "allowed are names"},
		"rules.files.10-a=#":            {"rules.files", `"10-a"`, "end in .toml"},
		"rules.nodeSelector.a=b;c":      {"/rules/nodeSelector/a", "b;c"},
		"rules.nosuch=1":                {"nosuch", "additional"},
	} {
		_, err := helm(t, "template", release, chart, "--set", "image.repository=registry.test/pullwarden,image.tag=v1", "--set", set)
		if err == nil {
			t.Errorf("%s is allowed", set)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is missing in %v", set, part, err)
			}
		}
	}
}
