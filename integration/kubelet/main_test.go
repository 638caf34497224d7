// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubelet runs a stock kubelet on the built daemon: pods, their
// containers and their images, as on a node.
//
//	Pod (a static pod, or an API server's) ──► kubelet ──CRI──► Node (nodetest)
//	  │ WantStarted, WantWaiting ◄── /pods                       │
//	registries (resolvertest) ◄────────────────────────────────┘
//
// Each test is a function of a Kubelet, which onNode runs in a process of its own
// (alone): in new mount, PID, network and IPC namespaces, whose file systems are
// read-only but for a tmpfs at each place that a kubelet writes to. With the
// process all of it is gone: pods, shims, mounts and files; alone then removes the
// pods' cgroups. The machine's sysctls are never written: the kubelet is told to
// protect them, and finds those that it wants.
//
// The module in tool pins the kubelet, and the API server and etcd of tests with pull
// secrets. make test-kubelet builds them, the daemon,
// stock containerd and the shim for both, and runs these tests.
package kubelet

import (
	"os"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// The environment variables that name what make test-kubelet builds.
const (
	kubernetesEnv = "PULLWARDEN_KUBERNETES" // the directory of the kubelet, kube-apiserver and etcd
	stockEnv      = "PULLWARDEN_STOCK"      // stock containerd, with its shim beside it
)

func TestMain(m *testing.M) {
	if os.Getenv(providerEnv) != "" { // first: a kubelet of a test starts its plugins with the test's environment
		provide()
		return
	}
	if os.Getenv(aloneEnv) != "" {
		prepareMachine()
	}
	nodetest.Main(m)
}

// binary returns the path in an environment variable, and ends the test where it
// names nothing.
func binary(t testing.TB, env string) string {
	t.Helper()
	path := os.Getenv(env)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s=%q: %v\nbuild what it names, and run this test, with: make test-kubelet", env, path, err)
	}
	return path
}
