// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package criplugins tells which of CRI's plugins has not started in a daemon.
package criplugins

import (
	"strings"

	introspection "github.com/containerd/containerd/api/services/introspection/v1"
)

// types begins the types of CRI's plugins. The one that serves it is of another type, called cri.
const types = "io.containerd.cri.v1"

// Failed returns the first plugin of CRI that has not started, and why; "" where all have. They are in
// the order of a daemon's answer, in which those that others need come first.
func Failed(plugins []*introspection.Plugin) (name, reason string) {
	for _, p := range plugins {
		if failed := p.GetInitErr(); failed != nil && (strings.HasPrefix(p.GetType(), types) || p.GetID() == "cri") {
			return p.GetType() + "." + p.GetID(), failed.GetMessage()
		}
	}
	return "", ""
}
