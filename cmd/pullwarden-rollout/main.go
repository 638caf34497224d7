// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pullwarden-rollout puts pullwarden onto the nodes of a cluster in stages, and
// takes it off again. The Helm chart runs it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pullwarden/pullwarden/cmd/pullwarden-rollout/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}
