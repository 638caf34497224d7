// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pullwarden is the companion of the containerd with pullwarden: it shows the
// status of a node, and checks and tests its configuration.
package main

import (
	"os"

	"github.com/pullwarden/pullwarden/cmd/pullwarden/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
