// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows on a terminal what pullwarden does: registries on
// loopback, the built containerd as the node, and what a kubelet would ask of
// it while the world changes. It fails where a decision is not the one that
// the story tells.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "ctr" {
		os.Exit(ctrMain(os.Args[1:]))
	}
	binary := flag.String("containerd", "bin/containerd", "the `daemon` to show")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// Where nobody reads on (demo | head), a write is to fail, and the process
	// to clean up. Nobody waits for the signal itself.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	err := run(ctx, *binary, newPrinter(os.Stdout))
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "demo: interrupted, everything is cleaned up")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run tells the whole story, and leaves nothing behind.
func run(ctx context.Context, binary string, out *printer) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("containerd unpacks and mounts images, which takes root: run the demo as root")
	}
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("there is no daemon to show: %w\nbuild it with: make build\nor name another one: -containerd PATH", err)
	}
	began := time.Now()
	w, err := open(ctx, binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	out.opening(w)
	for i, s := range story {
		err := tell(ctx, w, out, i+1, s)
		if out.err != nil {
			return out.err
		}
		if err != nil {
			return fmt.Errorf("step %d, %s: %w\nthe end of the daemon's log:\n%s", i+1, s.title, err, w.node.LogTail(20))
		}
	}
	if err := closing(ctx, w, out); err != nil {
		return err
	}
	if err := showOperator(ctx, w, out); err != nil {
		return err
	}
	out.ending(time.Since(began))
	return out.err
}
