// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node runs one node to try things on: a containerd with roots,
// sockets and configuration of its own, whose image service is asked as a
// kubelet asks it. The integration tests, the demo and the benchmarks share it;
// tests use it through nodetest. It needs root.
//
//	registries (resolvertest) ◄── Node: one containerd process ◄── Pull, Status, … (CRI)
//	                                │   hosts.toml, rule files ◄── Serve, WriteRules
//	                                ├── records and labels ──────► Record, Labels
//	                                └── log ─────────────────────► Decisions
//
// A node that has to be configured before its first start is made with New,
// and started with Start:
//
//	n, err := node.New(node.Options{Binary: "bin/containerd", Section: []string{"enabled = true"}})
//	…
//	defer n.Close()
//	err = n.Serve("registry.test", registry)
//	err = n.Start(ctx)
//	mark := n.Mark()
//	id, err := n.Pull(ctx, "registry.test/app:1", node.Hint("policy", "Always"))
//	decision, err := n.Decision(mark, "registry.test/app:1")
package node
