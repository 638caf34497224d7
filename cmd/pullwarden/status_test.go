// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	introspection "github.com/containerd/containerd/api/services/introspection/v1"
	"google.golang.org/grpc"

	"github.com/pullwarden/pullwarden/plugin/api"
)

// stock is a containerd with other plugins only.
type stock struct {
	introspection.UnimplementedIntrospectionServer
}

func (stock) Plugins(context.Context, *introspection.PluginsRequest) (*introspection.PluginsResponse, error) {
	return &introspection.PluginsResponse{Plugins: []*introspection.Plugin{{Type: "io.containerd.grpc.v1", ID: "cri"}}}, nil
}

// longImages are more than a message may have.
type longImages struct {
	imagesapi.UnimplementedImagesServer
}

func (longImages) List(context.Context, *imagesapi.ListImagesRequest) (*imagesapi.ListImagesResponse, error) {
	return &imagesapi.ListImagesResponse{Images: []*imagesapi.Image{{Name: strings.Repeat("x", 17<<20)}}}, nil
}

// serve serves on a socket whose path is short enough, until the test ends.
func serve(t *testing.T, register func(*grpc.Server)) (address string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	address = filepath.Join(dir, "s")
	l, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // it may not have begun
			t.Error(err)
		}
	})
	return address
}

// A daemon without pullwarden, and none at all, are told in words and by the exit code,
// in every format.
func TestStatusUnreachable(t *testing.T) {
	t.Parallel()
	plain := serve(t, func(s *grpc.Server) { introspection.RegisterIntrospectionServer(s, stock{}) })
	mute := serve(t, func(s *grpc.Server) {
		if err := (&api.Server{Status: func(context.Context) (api.Status, error) { return api.Status{}, nil }}).Register(s); err != nil {
			t.Error(err)
		}
	})
	long := serve(t, func(s *grpc.Server) {
		if err := (&api.Server{Status: func(context.Context) (api.Status, error) { return api.Status{}, nil }}).Register(s); err != nil {
			t.Error(err)
		}
		imagesapi.RegisterImagesServer(s, longImages{})
	})
	for _, tt := range []struct{ address, stderr string }{
		{plain, "the containerd at " + plain + " has no pullwarden in it: it is a stock one, or disabled_plugins names pullwarden\n"},
		{"unix://" + plain, "has no pullwarden in it"},
		{"/nowhere/containerd.sock", "containerd does not answer at /nowhere/containerd.sock: dial unix /nowhere/containerd.sock: connect: no such file or directory\nIs containerd running, and is that its socket?"},
		{mute, "containerd does not answer at " + mute}, // it has no images service
		{long, "containerd at " + long + " has more to tell than one message may have: grpc: received message larger than max"},
	} {
		for _, flags := range []string{"", "-o json", "-q", "--watch"} {
			r := run(t, t.TempDir(), append([]string{"--address", tt.address, "status"}, strings.Fields(flags)...)...)
			if r.code != 2 || r.stdout != "" || !strings.Contains(r.stderr, tt.stderr) || !strings.HasPrefix(r.stderr, "pullwarden: ") {
				t.Errorf("%s %s: exit %d\n%s%s", tt.address, flags, r.code, r.stdout, r.stderr)
			}
		}
	}
}
