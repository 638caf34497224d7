// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench runs bin/containerd and the stock containerd of the same
// version against the same registries on loopback, and prints a Markdown table
// of what each took: one file a row (row_*.go). It needs root.
//
// It judges no time. It fails when something does not work: a pull fails, or
// the registry saw what cannot be.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first one cleans up, a second one ends at once
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var b bench
	flag.StringVar(&b.binaries[stock], "stock", "build/containerd-stock", "the stock containerd")
	flag.StringVar(&b.binaries[ours], "ours", "bin/containerd", "the containerd with pullwarden")
	names := flag.String("rows", "", "the rows to measure, with commas between; empty for all of "+strings.Join(rowNames(rows), ",")+"; alone "+strings.Join(rowNames(extra), ","))
	flag.Parse()
	if os.Geteuid() != 0 {
		return errors.New("the daemons mount what they unpack: run this as root")
	}
	chosen, err := choose(*names)
	if err != nil {
		return err
	}
	header, err := describe(ctx, &b, *names)
	if err != nil {
		return err
	}
	t := table{header: header}
	var failed error
	for _, r := range chosen {
		fmt.Fprintf(os.Stderr, "%s: %s\n", r.name, r.about)
		lines, err := r.run(ctx, &b)
		t.lines = append(t.lines, lines...)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", r.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed, t.print(os.Stdout))
}
