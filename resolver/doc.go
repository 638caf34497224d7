// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolver asks registries which digest a name has, and hands the pull
// that follows a source that is pinned to that digest.
//
// Hosts are containerd's: hosts.toml decides their order, capabilities,
// certificates and headers, and docker's resolver speaks to them. This package
// adds what containerd does not have: each failure has a class, each host of a
// check has its share of one time budget, what can pass by itself is tried
// again, and the hosts that really served content are known afterwards. And it
// keeps what containerd makes anew for each pull: connections and tokens outlive
// it, and a host in trouble is found out once, not by every request.
//
//	Resolver ── Open(reference) ──► Session    the hosts.toml hosts of one reference
//	   │                              ├─ Resolve ──► Resolution | *Error    (check.go)
//	   │                              └─ Source  ──► transfer.ImageFetcher  (source.go)
//	   │                                    │
//	   │   docker's resolver ── Authorizer (authorizer.go)
//	   │           │                │
//	   │       transport (transport.go): judges (classify.go), tries again (retry.go),
//	   │           │            │   records who served what (record.go)
//	   │           │            │
//	   ├─ tokens ──┼────────────┘   by host, repository, credentials (tokens.go)
//	   ├─ breakers ┤                hosts that are not to be asked now (breaker.go)
//	   └─ host sets┘                containerd's hosts and transports, as long as
//	                                the files do not change (hostset.go, snapshot.go)
//
// Above the line is what belongs to a session: which secrets its errors must not
// repeat, what failed, who served. Below it is what sessions share.
//
// A request's context says what it is for: a check of one host, the fetch of one
// digest, a token on behalf of either. That is how the transport, which docker's
// resolver cannot pass anything else to, knows what to do with an answer.
package resolver
