// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin puts an image pull policy into containerd.
//
// A request for an image walks one straight way:
//
//	kubelet ── PullImage(ref, auth, pod annotations)
//	   │
//	   ▼
//	plugin/cri         decorators of the CRI ImageService, and of CreateContainer
//	   │  request → engine.Request
//	   ▼
//	plugin/engine      one decision: Ensure(ctx, Request) → Outcome
//	   │      ├─ plugin/policy   what applies: defaults < section < rule < hint   (pure)
//	   │      ├─ store           what the node knows: labels on the image record
//	   │      └─ resolver        what the registry says: digest, source, failure class
//	   │  reuse ─────────────────────────────► image ID
//	   │  pull
//	   ▼
//	containerd's own PullImage ─► plugin/transfer   source pinned to the digest that was
//	                                               compared, hosts recorded, labels
//	                                               stored with the new target
//
// This package itself is the edge: Install, the configuration section, the
// rule files, the wiring, the log line and the metrics.
package plugin
