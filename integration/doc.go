// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration runs the built daemon, against real registries on
// loopback. It is a folder for each subject, with one behaviour a file:
//
//	node      one test node: daemon, registries, CRI client, decisions
//	access    tests: who may have an image that is there
//	audit     tests: the audit log
//	explain   tests: pullwarden explain tells what the daemon then does
//	failures  tests: registries that fail, and a daemon that is killed
//	metrics   tests: metrics and spans, as their page has them
//	observe   tests: pulls that are containerd's own, and what is told of them
//	origin    tests: who speaks for a registry that cannot be asked
//	policies  tests: what is decided, and why
//	settings  tests: the same promises, however CRI is configured to pull
//	sources   tests: which hosts serve an image
//	status    tests: what pullwarden status shows
//	stock     tests: what containerd does, and still does
//	troubleshooting  tests: the messages of docs/troubleshooting.md
//	deploy    the dashboard and the alerts, against a real Prometheus
//	kubelet   a stock kubelet that runs pods on the daemon
//	critest   the conformance suite of CRI, against stock containerd and this one
//	histories random histories, held against a model of the contract
//	demo      the story of make demo
//	bench     the measurements of make bench
package integration
