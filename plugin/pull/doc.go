// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pull carries out the pulls that pullwarden decided on, in place of
// CRI's own PullImage. Every such pull goes one way, whatever CRI is configured
// to do: the plan's source, a transfer service, and then the names by which CRI
// knows an image.
//
//	Puller.Pull ── plan ──► plugin/transfer's Service
//	    │                        │
//	    │                        └─► NewService: a transfer service with the settings
//	    │                            of the node's own, or with CRI's where CRI pulls
//	    │                            without it (settings.go, service.go,
//	    │                            destination.go), by plugin/isolation
//	    │
//	    ├─ watch (watch.go): what was stored, and image_pull_progress_timeout
//	    └─ names (names.go): image ID, tag and digest, and CRI's index of images
//
// containerd's own pull, under mode Observe, is Puller.StockPull (stockpull.go). MadeOf
// (made.go) tells of which image a container was made, MountedOf (volumes.go) which one it has as
// a volume, and Misnamed where CRI has mounted another one for a container that it could not make.
package pull
