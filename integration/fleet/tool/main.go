// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tool prints the table of what TestFleet has written to a directory, and draws a
// plot of each scenario beside it, as SVG.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tool DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
