// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolver asks registries which digest a name has, and hands the pull
// that follows a source that is pinned to that digest.
//
// Hosts are containerd's: hosts.toml decides their order, capabilities,
// certificates and headers, and docker's resolver speaks to them. This package
// adds what containerd does not have: each failure has a class, each host of a
// check has its share of one time budget, what can pass by itself is tried
// again, and the hosts that really served content are known afterwards.
//
//	Resolver ── Open(reference) ──► Session    the hosts.toml hosts of one reference
//	                                  ├─ Resolve ──► Resolution | *Error    (check.go)
//	                                  └─ Source  ──► transfer.ImageFetcher  (source.go)
//	                                        │
//	docker's resolver ── Authorizer (authorizer.go) ── token server
//	        │
//	    transport (transport.go): judges (classify.go), tries again (retry.go),
//	        │                     records who served what (record.go)
//	    containerd's own http.Transport
//
// A request's context says what it is for: a check of one host, or the fetch of
// one digest. That is how the transport, which docker's resolver cannot pass
// anything else to, knows what to do with an answer.
package resolver
