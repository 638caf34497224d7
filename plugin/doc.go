// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin puts an image pull policy into containerd.
//
// A request for an image walks one straight way:
//
//	kubelet ── PullImage(ref, auth, pod annotations)
//	   │
//	   ▼
//	plugin/cri         decorators of CRI: a request in the engine's words, an outcome in CRI's
//	   │  engine.Request
//	   ▼
//	plugin/engine      Ensure(ctx, Request) → Outcome, a row of values:
//	   │
//	   │   directives := default < section < rule < hint                   ── plugin/policy
//	   │   local      := inspect()   the node's image, the caller's grant  ── store, store/content
//	   │   check      := check()     the registry's digest, or failure     ── resolver
//	   │   action     := Decide(directives, local, check)     pure         ── plugin/policy
//	   │   act        reuse ───────────────────────────────────► image ID
//	   │              pull, reverify, fail
//	   │              after a failure: fallBack decides again; a denial first takes
//	   │              the caller's proof away (holder.go)
//	   │              under a pull_deadline the pull is the engine's: once it is overdue
//	   │              the cached image ends the request, and the pull goes on (deadline.go)
//	   │              under mode = "Observe" containerd pulls by itself, and the way up to
//	   │              act is walked beside that pull, only to tell of it (observe.go)
//	   │  transfer.Plan
//	   ▼
//	plugin/pull        a pull as CRI would make it: its settings, its names of an image; it lets
//	   │               the source ask for configs and layers before containerd does (prefetch.go)
//	   │
//	   ▼
//	plugin/transfer    source pinned to the digest that was compared, its hosts tracked,
//	   │               labels stored with the new target
//	   ▼
//	plugin/isolation   apart from what other sources have begun; content and its labels are
//	   │               committed in one transaction
//	   │
//	   ▼
//	containerd's own transfer service, fetching and unpacking
//
// Under govern = "Starts" it begins with ImageStatus, by which the kubelet asks whether the
// image is there: where the engine (start.go) would not simply reuse it, plugin/cri
// (starts.go) says that there is none, and PullImage follows.
//
//	resolver           session, check and source of a pull, on these rooms:
//	   hosts           hosts.toml: which hosts, how configured, when changed
//	   auth            challenges, tokens, credentials
//	   health          which hosts are in trouble
//	   transport       a chain of RoundTrippers, one a file
//	   pool            connections: HTTP/2, and HTTP/1.1 within bounds
//	   purpose         the purpose of a request, as a value in its context
//	   fault, failure  failures and their classes; one table classifies
//	   provenance      where content came from
//	   redact          what must never be shown
//	store              records of images: labels, proofs, marks; one writer
//	   content         is an image complete, the same, possessed by its claimant
//
// The package itself is the edge: Install, the wiring, the log line and the span. The
// metrics are in plugin/metrics, the audit log is in plugin/audit, and the configuration
// section in plugin/config; plugin/rules keeps the rule files current, and plugin/pin the
// pins of images that rules keep on the node: the engine tells it of each use (pin.go). The
// command line has packages of its own, which ask the same parsers and the same decision:
// plugin/check finds mistakes, plugin/ruletest runs cases, and plugin/rulesync copies rules of a
// cluster to the node once both are content. For plugin/status, which makes the
// picture of a node, plugin/api brings what only the daemon knows over containerd's socket.
// By it the daemon also explains a request: the engine walks the same way without effects,
// and plugin/explain tells what it foresees.
// TestDirections holds which package may import which.
package plugin
