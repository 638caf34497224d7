// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolvertest runs a real registry on loopback whose every answer can
// be scripted. Tests start one with New; programs that are no tests (a demo)
// with Start.
//
// Underneath is the distribution project's registry on memory. In front of it
// stand, from the outside in: the listener (Refuse, Swallow), the record of
// requests (Requests), the scripts (Script and the ready-made faults), and
// authentication. Push, Tag and DeleteTag go past all of these, so they work
// while the registry is down and leave no trace in the record.
package resolvertest
