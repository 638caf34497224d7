// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package criplugins tells which of CRI's plugins has not started in a daemon.
package criplugins

import (
	"strings"

	introspection "github.com/containerd/containerd/api/services/introspection/v1"
)

// types begins the types of CRI's plugins but for server, the one that serves it, which needs the others.
const (
	types  = "io.containerd.cri.v1"
	server = "io.containerd.grpc.v1.cri"
)

// Failed returns the first plugin of CRI that has not started, and why; "" where all have. They are in
// the order of a daemon's answer, in which those that others need come first. A plugin that is switched
// off is not in an answer.
func Failed(plugins []*introspection.Plugin) (name, reason string) {
	serves := false
	for _, p := range plugins {
		name := p.GetType() + "." + p.GetID()
		serves = serves || name == server
		if failed := p.GetInitErr(); failed != nil && (strings.HasPrefix(p.GetType(), types) || name == server) {
			return name, failed.GetMessage()
		}
	}
	if !serves {
		return server, "it is switched off by disabled_plugins, or not in this containerd"
	}
	return "", ""
}
