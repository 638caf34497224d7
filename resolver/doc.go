// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolver asks registries which digest a name has, and hands the pull
// that follows a source that is pinned to that digest.
//
// Hosts are containerd's: hosts.toml decides their order, capabilities,
// certificates and headers, and docker's resolver speaks to them. This package
// adds what containerd does not have: each failure has a class, each host of a
// check has its share of one time budget, temporary failures are tried again, and
// the hosts that really served content are known afterwards. And it keeps what
// containerd makes anew for each pull: connections and tokens outlive it, and a
// host in trouble is found out once, not by every request.
//
//	Resolver ── Open(Query) ──► Session     the hosts of one reference
//	                              ├─ Resolve ──► Resolution | *Error    (session.go, check.go)
//	                              │    └──── of an absent image: its manifest, which
//	                              │          the Source has  (manifest.go)
//	                              └─ Source  ──► transfer.ImageFetcher  (source.go, fetcher.go)
//	                                    ├──── Prefetching: what a manifest names, before
//	                                    │     containerd asks for it  (prefetch.go,
//	                                    │     prefetchlayers.go, prefetched.go)
//	                                    ├──── what is downloaded at a time  (downloads.go)
//	                                    │
//	docker's resolver, made for each check of a host and for each Source
//	   │ authorizes with                │ asks with
//	   │                                │
//	tracker, of a Source: what its requests are for, who served, who failed
//	   │                                │                 (tracker.go, fetchlog.go)
//	 auth ─── asks token servers ─► transport ── guard, retry, report, classify, …
//	                                    │  └──── examiner, of a check: are its
//	                                    │        answers right?     (examiner.go)
//	                             pool: connections, made by containerd's transports
//
// A check goes from host to host in session.Resolve. A download does in docker's
// fetcher; transport's guard makes it pass over a host in trouble.
//
// Each room below knows only rooms that stand below it:
//
//	transport    the chain of RoundTrippers
//	auth         challenges, tokens, credentials
//	hosts        hosts.toml, the hosts it names, and their connections
//	pool         which request goes over which connection
//	tries        whether a request is made again
//	purpose      what a request is made for: a value in its context
//	health       which hosts are in trouble
//	fault        a failure that was judged, and the table that judges
//	redact       what must never be shown
//	provenance   where bytes came from
//	failure      the classes
//
// A session has a redactor and chains of its own, so that its errors repeat no
// secret and name no image of another; sessions share connections, tokens and
// health. No policy is decided here: a Query says in plain values what its caller
// has already.
package resolver
