// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command configexample prints config.toml.example.
package main

import (
	"fmt"

	"github.com/pullwarden/pullwarden/plugin"
)

func main() { fmt.Print(plugin.ExampleConfig()) }
