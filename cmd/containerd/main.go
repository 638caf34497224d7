// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command containerd is containerd with all of its own built-ins plus
// pullwarden. Without pullwarden's section in the configuration it behaves as
// stock containerd does.
package main

import (
	"context"
	"fmt"
	"os"

	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins"
	"github.com/containerd/containerd/v2/cmd/containerd/command"

	"github.com/pullwarden/pullwarden/internal/cliapp"
	pullwarden "github.com/pullwarden/pullwarden/plugin"
)

func main() {
	pullwarden.Install()
	if err := cliapp.Run(context.Background(), command.App(), os.Args); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "containerd:", err)
		os.Exit(1)
	}
}
