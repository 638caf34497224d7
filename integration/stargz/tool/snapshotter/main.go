// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command snapshotter serves the stargz snapshotter on a socket, as its own
// containerd-stargz-grpc does, which the Go module proxy does not have.
//
//	snapshotter ROOT SOCKET CERTS.D
//
// Layers are read from the registries that the hosts.toml files in CERTS.D name. It ends
// on SIGTERM, and takes the file systems that it has mounted with it.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/stargz-snapshotter/service"
	"github.com/containerd/stargz-snapshotter/service/resolver"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: snapshotter ROOT SOCKET CERTS.D")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve serves until the context ends.
func serve(ctx context.Context, root, socket, hosts string) error {
	var config service.Config
	config.NoPrometheus = true
	config.NoBackgroundFetch = true // else layers are downloaded, after a while
	sn, err := service.NewStargzSnapshotterService(ctx, root, &config, service.WithCustomRegistryHosts(
		resolver.RegistryHostsFromCRIConfig(ctx, resolver.Registry{ConfigPath: hosts})))
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(sn))
	context.AfterFunc(ctx, server.Stop)
	if err := server.Serve(l); err != nil {
		return err
	}
	return sn.Close()
}
