// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	introspection "github.com/containerd/containerd/api/services/introspection/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// Namespace is containerd's namespace of CRI's images, and the clients'
	// default.
	Namespace = "k8s.io"

	maxSocketPath = 107 // the kernel's
)

// Node is a containerd. One goroutine at a time may start, stop, kill or close
// it; everything else may be called from any goroutine in between. It never
// outlives this process.
type Node struct {
	// Options count from the next start on.
	Options Options
	// The clients of the running daemon. Each start makes new ones; those of a
	// daemon that has ended are closed, and calls of theirs fail.
	Client *containerd.Client
	Conn   *grpc.ClientConn
	Images runtimeapi.ImageServiceClient

	process process
	dir     string
	sockets string // apart from dir, whose path can be too long for a socket
}

// Start makes a node, starts it and waits until CRI answers. The caller closes
// it. On an error nothing is left of it.
func Start(ctx context.Context, o Options) (*Node, error) {
	n, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := n.Start(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// New makes the directories of a node, which Start or Run then starts. The
// caller closes it, started or not.
func New(o Options) (*Node, error) {
	sockets, err := os.MkdirTemp("", "pw")
	if err != nil {
		return nil, err
	}
	n := &Node{Options: o, dir: o.Dir, sockets: sockets}
	if path := n.Address(); len(path) > maxSocketPath {
		return nil, errors.Join(fmt.Errorf("%s is too long for a socket, the limit is %d bytes: set TMPDIR to a shorter path", path, maxSocketPath), os.RemoveAll(sockets))
	}
	if n.dir == "" {
		n.dir, err = os.MkdirTemp("", "pullwarden-node-")
	} else {
		err = os.MkdirAll(n.dir, 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(sockets))
	}
	n.dir, err = filepath.EvalSymlinks(n.dir) // as the kernel lists mounts
	if err == nil {
		err = n.makeDirs()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(n.dir), os.RemoveAll(sockets))
	}
	return n, nil
}

// Start starts the daemon and waits until CRI answers. The error has the end of
// the daemon's log.
func (n *Node) Start(ctx context.Context) error {
	err := n.Run(ctx)
	if err == nil {
		err = n.WaitForCRI(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w\nthe end of its log:\n%s", err, n.LogTail(20))
	}
	return nil
}

// Restart stops the daemon and starts it on the same root, with the Options it
// has now.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Stop(); err != nil {
		return err
	}
	return n.Start(ctx)
}

// Close stops the daemon and removes its mounts, sockets and files.
func (n *Node) Close() error { return errors.Join(n.Stop(), n.removeFiles()) }

// WaitForCRI waits until CRI answers. Where CRI did not come up, the error
// says why.
func (n *Node) WaitForCRI(ctx context.Context) error {
	cri, err := n.Plugin(ctx, "io.containerd.grpc.v1", "cri")
	if err != nil {
		return err
	}
	if cri == nil || cri.GetInitErr() != nil {
		return fmt.Errorf("CRI did not start: %v", cri)
	}
	return n.Until(ctx, "CRI answers", func(ctx context.Context) error {
		_, err := n.List(ctx)
		return err
	})
}

// Plugin returns what the daemon says of a plugin, nil where it has none of
// that type and ID.
func (n *Node) Plugin(ctx context.Context, typ, id string) (*introspection.Plugin, error) {
	resp, err := n.Client.IntrospectionService().Plugins(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for plugins: %w", err)
	}
	for _, p := range resp.GetPlugins() {
		if p.GetType() == typ && p.GetID() == id {
			return p, nil
		}
	}
	return nil, nil
}

func (n *Node) connect() (err error) {
	n.Client, err = containerd.New(n.Address(), containerd.WithDefaultNamespace(Namespace), containerd.WithTimeout(StartLimit))
	if err == nil {
		n.Conn, err = grpc.NewClient("unix://"+n.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	if err != nil {
		return fmt.Errorf("connect to the daemon: %w", err)
	}
	n.Images = runtimeapi.NewImageServiceClient(n.Conn)
	return nil
}

// disconnect leaves the clients in place, closed.
func (n *Node) disconnect() {
	if n.Client != nil {
		_ = n.Client.Close()
	}
	if n.Conn != nil {
		_ = n.Conn.Close()
	}
}
