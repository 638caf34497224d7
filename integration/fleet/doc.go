// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet shows what many nodes do to a registry: each node has the real engine,
// resolver and policy, in the virtual time of testing/synctest, and the registry is a
// model with capacity, latency, limits and outages.
//
//	scenario.go    a story: a fleet, its registries, what happens to them; its arms
//	scenarios.go   the stories of docs/fleet.md; profiles.go has their registries
//	run.go         one arm in one bubble, from its first second to its result
//	script.go      steps in the place of a story, to be compared with real daemons (reality/)
//	kubelet.go     containers that start on a node, one pull at a time, with the kubelet's back-off
//	node.go        the engine of a node on its resolver; records.go is its image store,
//	               runtime.go its containerd, client.go its wire
//	stock.go       what stock containerd's Always asks, as a model
//	registry.go    the model of a registry; limits.go, faults.go, line.go and image.go are
//	               its parts
//	series.go      counts by the second
//	result.go      the row of a table that they come to
//
// Modelled are the registry, the wire and the disk: a connection that is not there yet costs
// two round trips, a layer the time of its bytes, and records are kept in memory. Nothing
// else is: who asks whom, when and how often is decided by the code that runs on nodes.
//
// The bubble of an arm holds all of its nodes, since they share a registry. TestScenarios
// runs each story with a few nodes; `make fleet` runs one with as many as it has, and tool/
// draws it.
package fleet
