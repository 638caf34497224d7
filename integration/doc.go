// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration runs the built daemon, against real registries on
// loopback. It is a folder for each subject, with one behaviour a file:
//
//	node      one test node: daemon, registries, CRI client, decisions
//	access    tests: who may have an image that is there
//	failures  tests: registries that fail, and a daemon that is killed
//	observe   tests: pulls that are containerd's own, and what is told of them
//	policies  tests: what is decided, and why
//	settings  tests: the same promises, however CRI is configured to pull
//	sources   tests: which hosts serve an image
//	stock     tests: what containerd does, and still does
//	troubleshooting  tests: the messages of docs/troubleshooting.md
//	critest   the conformance suite of CRI, against stock containerd and this one
//	histories random histories, held against a model of the contract
//	demo      the story of make demo
//	bench     the measurements of make bench
package integration
