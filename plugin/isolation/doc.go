// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package isolation keeps apart the unfinished work of pulls from different
// sources. containerd knows a download by the digest of the content and an unpack
// by that of the layers, whoever began it. So somebody who knows a digest of
// another's image could have a registry of their own send it byte by byte, while
// the other waits, or send other bytes and leave, which the other would build
// upon. Here,
//
//	pull ── Scope: registry, hosts, caller, repository
//	  │
//	  ▼
//	Service ── a transfer service for this pull alone, with
//	  │            its limits of downloads and unpacks
//	  ├─ locker    its turns: equal scopes take turns, those of one registry and
//	  │            caller wait for each other for some time, others never, nor
//	  │            anybody else for what a manifest has fetched by urls
//	  │    ├─ layers    what it unpacks of which content: equal unpackings take turns
//	  │    ├─ progress  what it is at: others take over what it has only begun
//	  │    └─ places    how many layers it begins with at a time, of any number
//	  └─ contents  its view of the content store: unfinished content of its own
//	       │       scope only
//	       ├─ ownDocuments  of what is finished, documents are hidden from a source that
//	       │                has not shown that it has the image
//	       ├─ writer  fetches once more what has not the digest that it must have
//	       └─ labels  are written with the content, and not twice
//
// Finished layers belong to all: their digests were compared. Documents belong to those who have
// delivered them: what they name is nobody else's to know.
package isolation
