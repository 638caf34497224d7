// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package criplugins

import (
	"testing"

	introspection "github.com/containerd/containerd/api/services/introspection/v1"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
)

func TestFailed(t *testing.T) {
	t.Parallel()
	started := func(kind, id string) *introspection.Plugin { return &introspection.Plugin{Type: kind, ID: id} }
	failed := func(kind, id string) *introspection.Plugin {
		return &introspection.Plugin{Type: kind, ID: id, InitErr: &rpc.Status{Message: "a mistake"}}
	}
	images, runtime, server := started("io.containerd.cri.v1", "images"), started("io.containerd.cri.v1", "runtime"), started("io.containerd.grpc.v1", "cri")
	other := failed("io.containerd.snapshotter.v1", "zfs")
	for want, plugins := range map[string][]*introspection.Plugin{
		"": {other, images, runtime, server},
		"io.containerd.cri.v1.runtime: a mistake":                                                      {other, images, failed("io.containerd.cri.v1", "runtime"), failed("io.containerd.grpc.v1", "cri")},
		"io.containerd.grpc.v1.cri: a mistake":                                                         {images, runtime, failed("io.containerd.grpc.v1", "cri")},
		"io.containerd.cri.v1.images: a mistake":                                                       {failed("io.containerd.cri.v1", "images"), runtime},
		"io.containerd.grpc.v1.cri: it is switched off by disabled_plugins, or not in this containerd": {images, runtime, other},
	} {
		name, reason := Failed(plugins)
		got := name
		if name != "" {
			got += ": " + reason
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
