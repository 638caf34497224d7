// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manpages writes the man pages of pullwarden into a directory.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/pullwarden/pullwarden/cmd/pullwarden/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manpages DIRECTORY")
		os.Exit(2)
	}
	header := &doc.GenManHeader{Section: "8", Source: "pullwarden", Manual: "pullwarden"}
	if err := doc.GenManTree(cli.New(), header, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}
