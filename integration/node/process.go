// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

const (
	// StartLimit bounds each step of a start. It is enough for a daemon with
	// the race detector on a busy machine.
	StartLimit = 60 * time.Second

	stopLimit = 60 * time.Second
)

// process is the daemon's. The zero value was never started.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once cmd is gone
}

// Run starts the process and waits until it answers for its plugins, of which
// CRI may still be starting, or have failed.
func (n *Node) Run(ctx context.Context) error {
	if n.Alive() {
		return errors.New("the daemon is running")
	}
	n.disconnect()
	if err := n.Write(n.Path("config.toml"), n.config()); err != nil {
		return err
	}
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// The daemon ends by Stop, Kill or Close, not with the context of its start.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), n.Options.Binary, "--config", n.Path("config.toml")) //nolint:gosec // the caller's own binary
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), n.Options.Env...)
	exited, err := launch(cmd)
	if err != nil {
		return err
	}
	n.process = process{cmd, exited}

	err = n.Until(ctx, "it listens", func(ctx context.Context) error { // gRPC would wait a second to try again
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", n.Address())
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		n.logGoroutines()
		return err
	}
	if err := n.connect(); err != nil {
		return err
	}
	return n.Until(ctx, "it answers for its plugins", func(ctx context.Context) error {
		_, err := n.Client.IntrospectionService().Plugins(ctx)
		return err
	})
}

// logGoroutines has a daemon that is there write into its log what its goroutines do.
func (n *Node) logGoroutines() {
	if n.Alive() && n.process.cmd.Process.Signal(syscall.SIGUSR1) == nil {
		time.Sleep(time.Second) // it writes when it likes
	}
}

// launch starts a process that a terminal's Ctrl-C does not reach, and that the
// kernel kills when this one ends. The kernel watches the thread that started
// the process, so that thread is kept until the process has ended. The channel
// is closed then.
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

// Until polls f until it gives no error, for StartLimit at most and not after
// the daemon's end. The error names what was waited for, and f's last.
func (n *Node) Until(ctx context.Context, what string, f func(context.Context) error) error {
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
		case <-n.process.exited:
			return fmt.Errorf("the daemon has exited (%v) before %s: %w", n.process.cmd.ProcessState, what, err)
		case <-ctx.Done():
			return fmt.Errorf("%w before %s: %w", ctx.Err(), what, err)
		case <-tick.C:
		}
	}
}

// Alive reports whether the process is there.
func (n *Node) Alive() bool {
	if n.process.cmd == nil {
		return false
	}
	select {
	case <-n.process.exited:
		return false
	default:
		return true
	}
}

// Stop ends the daemon as an operator does. It is an error when the daemon
// does not end by itself and has to be killed.
func (n *Node) Stop() error { return n.end(syscall.SIGTERM) }

// Kill ends the daemon with SIGKILL.
func (n *Node) Kill() error { return n.end(syscall.SIGKILL) }

func (n *Node) end(signal syscall.Signal) error {
	defer n.disconnect()
	if !n.Alive() {
		return nil
	}
	_ = n.process.cmd.Process.Signal(signal)
	select {
	case <-n.process.exited:
		return nil
	case <-time.After(stopLimit):
		_ = n.process.cmd.Process.Kill()
		<-n.process.exited
		return fmt.Errorf("the daemon did not end within %v of %v", stopLimit, signal)
	}
}
