// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dockerlint parses Dockerfiles as BuildKit does, and holds them to its rules. Each
// mistake is a line of its output. The shell commands of RUN steps are lines that begin
// with RUN.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	code := 0
	for _, file := range os.Args[1:] {
		if err := lint(file, func(line string) { code = 1; fmt.Println(line) }); err != nil {
			code = 1
			fmt.Printf("%s: %v\n", file, err)
		}
	}
	os.Exit(code)
}

func lint(file string, mistake func(string)) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return err
	}
	rules := linter.New(&linter.Config{Warn: func(rule, _, _, message string, location []parser.Range) {
		mistake(fmt.Sprintf("%s:%v: %s: %s", file, location, rule, message))
	}})
	for _, w := range parsed.Warnings {
		mistake(fmt.Sprintf("%s: %s", file, w.Short))
	}
	stages, _, err := instructions.Parse(parsed.AST, rules)
	if err != nil {
		return err
	}
	for _, stage := range stages {
		for _, command := range stage.Commands {
			if run, ok := command.(*instructions.RunCommand); ok {
				fmt.Println("RUN", strings.Join(run.CmdLine, " "))
			}
		}
	}
	return rules.Error()
}
