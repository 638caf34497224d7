// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package daemon runs a containerd with roots, sockets and configuration of
// its own, for whoever needs a node to try things on: tests, the demo,
// benchmarks. It needs root.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	introspection "github.com/containerd/containerd/api/services/introspection/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// Namespace is that of CRI's images, and the clients' default.
	Namespace = "k8s.io"
	// StartLimit bounds each step of a start. It is enough for a daemon with
	// the race detector on a busy machine.
	StartLimit = 60 * time.Second

	stopLimit     = 30 * time.Second
	maxSocketPath = 107 // the kernel's
)

// Daemon is a containerd. Its methods are for one goroutine at a time; its
// clients are for any. It never outlives this process.
type Daemon struct {
	// Options count from the next start on.
	Options Options
	// The clients of the running daemon; each start makes new ones.
	Client *containerd.Client
	Conn   *grpc.ClientConn
	Images runtimeapi.ImageServiceClient

	dir     string
	sockets string // apart from dir, whose path can be too long for a socket
	cmd     *exec.Cmd
	exited  chan struct{} // closed once cmd is gone
}

// Start makes a daemon, starts it and waits until CRI answers. The caller
// closes it. On an error nothing is left of it.
func Start(ctx context.Context, o Options) (*Daemon, error) {
	d, err := New(o)
	if err != nil {
		return nil, err
	}
	err = d.Run(ctx)
	if err == nil {
		err = d.WaitForCRI(ctx)
	}
	if err != nil {
		log, _ := d.Log()
		return nil, errors.Join(fmt.Errorf("%w\nthe end of its log:\n%s", err, Tail(log, 20)), d.Close())
	}
	return d, nil
}

// New makes the directories of a daemon, which Run then starts. The caller
// closes it, started or not.
func New(o Options) (*Daemon, error) {
	sockets, err := os.MkdirTemp("", "pw")
	if err != nil {
		return nil, err
	}
	d := &Daemon{Options: o, dir: o.Dir, sockets: sockets}
	if path := d.Address(); len(path) > maxSocketPath {
		return nil, errors.Join(fmt.Errorf("%s is too long for a socket, the limit is %d bytes: set TMPDIR to a shorter path", path, maxSocketPath), os.RemoveAll(sockets))
	}
	if d.dir == "" {
		d.dir, err = os.MkdirTemp("", "pullwarden-daemon-")
	} else {
		err = os.MkdirAll(d.dir, 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(sockets))
	}
	d.dir, err = filepath.EvalSymlinks(d.dir) // as the kernel lists mounts
	if err == nil {
		err = d.makeDirs()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(d.dir), os.RemoveAll(sockets))
	}
	return d, nil
}

// Run starts the process and waits until it answers for its plugins, of which
// CRI may still be starting, or have failed.
func (d *Daemon) Run(ctx context.Context) error {
	if d.Alive() {
		return errors.New("the daemon is running")
	}
	d.disconnect()
	if err := d.Write(d.Path("config.toml"), d.config()); err != nil {
		return err
	}
	log, err := os.OpenFile(d.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// The daemon ends by Stop, Kill or Close, not with the context of its start.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), d.Options.Binary, "--config", d.Path("config.toml")) //nolint:gosec // the caller's own binary
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), d.Options.Env...)
	exited, err := launch(cmd)
	if err != nil {
		return err
	}
	d.cmd, d.exited = cmd, exited

	err = d.Until(ctx, "it listens", func(ctx context.Context) error { // gRPC would wait a second to try again
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", d.Address())
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := d.connect(); err != nil {
		return err
	}
	return d.Until(ctx, "it answers for its plugins", func(ctx context.Context) error {
		_, err := d.Client.IntrospectionService().Plugins(ctx)
		return err
	})
}

// launch starts a process that a terminal's Ctrl-C does not reach, and that the
// kernel kills when this one ends. For that it looks at the thread which
// started the process; so that one is kept for as long. The channel is closed
// when the process has ended.
func launch(cmd *exec.Cmd) (exited chan struct{}, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	exited = make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its state is in cmd
		}
		close(exited)
	}()
	return exited, <-started
}

func (d *Daemon) connect() (err error) {
	d.Client, err = containerd.New(d.Address(), containerd.WithDefaultNamespace(Namespace), containerd.WithTimeout(StartLimit))
	if err == nil {
		d.Conn, err = grpc.NewClient("unix://"+d.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	if err != nil {
		return fmt.Errorf("connect to the daemon: %w", err)
	}
	d.Images = runtimeapi.NewImageServiceClient(d.Conn)
	return nil
}

// disconnect leaves the clients in place, closed: calls of theirs then fail.
func (d *Daemon) disconnect() {
	if d.Client != nil {
		_ = d.Client.Close()
	}
	if d.Conn != nil {
		_ = d.Conn.Close()
	}
}

// Plugin returns what the daemon says of a plugin, nil where it has none of
// that type and ID.
func (d *Daemon) Plugin(ctx context.Context, typ, id string) (*introspection.Plugin, error) {
	resp, err := d.Client.IntrospectionService().Plugins(ctx)
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

// WaitForCRI waits until CRI answers. Where CRI did not come up, the error
// says why.
func (d *Daemon) WaitForCRI(ctx context.Context) error {
	cri, err := d.Plugin(ctx, "io.containerd.grpc.v1", "cri")
	if err != nil {
		return err
	}
	if cri == nil || cri.GetInitErr() != nil {
		return fmt.Errorf("CRI did not start: %v", cri)
	}
	return d.Until(ctx, "CRI answers", func(ctx context.Context) error {
		_, err := d.Images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
		return err
	})
}

// Until polls f until it gives no error, for StartLimit at most and not after
// the daemon's end. The error names what was waited for, and f's last.
func (d *Daemon) Until(ctx context.Context, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, StartLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-d.exited:
			return fmt.Errorf("the daemon has exited (%v) before %s: %w", d.cmd.ProcessState, what, err)
		case <-ctx.Done():
			return fmt.Errorf("%w before %s: %w", ctx.Err(), what, err)
		case <-tick.C:
		}
	}
}

// Alive reports whether the process is there.
func (d *Daemon) Alive() bool {
	if d.cmd == nil {
		return false
	}
	select {
	case <-d.exited:
		return false
	default:
		return true
	}
}

// Stop ends the daemon as an operator does. It is an error when the daemon
// does not end by itself and has to be killed.
func (d *Daemon) Stop() error { return d.end(syscall.SIGTERM) }

// Kill ends the daemon with SIGKILL.
func (d *Daemon) Kill() error { return d.end(syscall.SIGKILL) }

func (d *Daemon) end(signal syscall.Signal) error {
	defer d.disconnect()
	if !d.Alive() {
		return nil
	}
	_ = d.cmd.Process.Signal(signal)
	select {
	case <-d.exited:
		return nil
	case <-time.After(stopLimit):
		_ = d.cmd.Process.Kill()
		<-d.exited
		return fmt.Errorf("the daemon did not end within %v of %v", stopLimit, signal)
	}
}

// Restart stops the daemon, starts it on the same root with the Options it has
// now, and waits until CRI answers.
func (d *Daemon) Restart(ctx context.Context) error {
	if err := d.Stop(); err != nil {
		return err
	}
	if err := d.Run(ctx); err != nil {
		return err
	}
	return d.WaitForCRI(ctx)
}

// Close stops the daemon and removes its mounts, sockets and files.
func (d *Daemon) Close() error { return errors.Join(d.Stop(), d.removeFiles()) }
