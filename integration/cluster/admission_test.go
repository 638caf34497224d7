// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// podWith returns a pod with hints, "key=value", and the pull policy of its image.
func podWith(image, pull string, hints ...string) map[string]any {
	annotations := map[string]string{"example.com/other": "x"}
	for _, hint := range hints {
		key, value, _ := strings.Cut(hint, "=")
		annotations["pullwarden.io/"+key] = value
	}
	return map[string]any{
		"metadata": map[string]any{"generateName": "pod-", "annotations": annotations},
		"spec": map[string]any{
			"automountServiceAccountToken": false, "serviceAccountName": "app",
			"containers": []any{map[string]any{"name": "app", "image": image, "imagePullPolicy": pull}},
		},
	}
}

// admission is a pod in a namespace, and a part of the refusal; "" = it is admitted.
type admission struct {
	namespace string
	pod       map[string]any
	refusal   string
}

const pinned = "registry.test/app:v1"

func admissions() []admission {
	with := func(hints ...string) map[string]any { return podWith(pinned, "IfNotPresent", hints...) }
	all := []admission{
		{"tenant", with(), ""},
		{"tenant", with("policy=Always", "max-age=0s", "on-unreachable=Fail"), ""},
		{"tenant", with("polcy=Always"), "pullwarden.io/polcy is no hint of pullwarden: allowed are pullwarden.io/policy"},
		{"free", with("polcy=Always"), "pullwarden.io/polcy is no hint"},
		{"tenant", with("policy=Never"), "pullwarden.io/policy: Never may be set only in namespaces with the label pullwarden.io/hints=allow"},
		{"tenant", with("on-not-found=UseCached"), "pullwarden.io/on-not-found: UseCached may be set only"},
		{"tenant", with("verify-timeout=2m"), "pullwarden.io/verify-timeout: 2m"},
		{"tenant", with("resolve-from=Mirrors"), "pullwarden.io/resolve-from: Mirrors"},
		{"tenant", with("max-stale=9999h"), "pullwarden.io/max-stale: 9999h"},
		{"tenant", with("max-age=9999h"), "pullwarden.io/max-age: 9999h"},
		{"free", with("policy=Never", "on-not-found=UseCached", "verify-timeout=2m", "resolve-from=Mirrors"), ""},
		{"denied", with("policy=Never"), "may be set only"},
		{"tenant", podWith("registry.test/app:latest", "IfNotPresent"), "container app: registry.test/app:latest needs imagePullPolicy: Always"},
		{"tenant", podWith("registry.test/app:latest", "Always"), ""},
		{"tenant", podWith("registry.test:5000/team/app", "IfNotPresent"), "container app: registry.test:5000/team/app needs imagePullPolicy: Always"},
		{"tenant", podWith("app", "Never"), "container app: app needs imagePullPolicy: Always"},
		{"tenant", podWith("app", "Always"), ""},
		{"tenant", podWith("registry.test:5000/team/app:1", "IfNotPresent"), ""},
		{"tenant", podWith("registry.test/app:latest@sha256:"+strings.Repeat("a", 64), "IfNotPresent"), ""},
	}
	return all
}

// The examples of admission policies admit and refuse what their pages say, on a stock API
// server.
func TestAdmissionPolicies(t *testing.T) {
	c := newCluster(t)
	for name, label := range map[string]string{"tenant": "", "free": "allow", "denied": "no"} {
		c.makeNamespace(name)
		if label != "" {
			c.must(http.MethodPatch, "/api/v1/namespaces/"+name, map[string]any{"metadata": map[string]any{"labels": map[string]string{"pullwarden.io/hints": label}}}, nil)
		}
		c.must(http.MethodPost, "/api/v1/namespaces/"+name+"/serviceaccounts", map[string]any{"metadata": map[string]any{"name": "app"}}, nil)
	}
	for _, file := range []string{"pullwarden-hints", "pullwarden-latest"} {
		text, err := os.ReadFile("../../deploy/admission/" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.apply(string(text), false); err != nil {
			t.Fatal(err)
		}
	}
	create := func(a admission) error {
		return c.call(http.MethodPost, "/api/v1/namespaces/"+a.namespace+"/pods?dryRun=All", a.pod, nil)
	}
	// A policy is in force a moment after it was made.
	for _, a := range []admission{admissions()[2], admissions()[12]} {
		c.until("the policies are in force: "+a.refusal, func() error {
			if err := create(a); err == nil || !strings.Contains(err.Error(), a.refusal) {
				return fmt.Errorf("admitted: %w", err)
			}
			return nil
		})
	}
	for _, a := range admissions() {
		err := create(a)
		if admitted := err == nil; admitted != (a.refusal == "") || !admitted && !strings.Contains(err.Error(), a.refusal) {
			t.Errorf("in %s, want %q: %v: %v", a.namespace, a.refusal, a.pod, err)
		}
	}
}
