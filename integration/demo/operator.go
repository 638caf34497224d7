// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lookIndent is before each line of a look, in columns.
const lookIndent = 4

// degraded is the exit code of a node that has something to look at, as this one does.
const degraded = 1

// look is a command of an operator.
type look struct {
	so   string   // says in a sentence what to see
	args []string // of pullwarden
}

var looks = []look{
	{
		so:   "The private image was used while the registry was down, and not checked since. That is told first, and by the exit code 1.",
		args: []string{"status"},
	},
	{
		so:   "What the next pod would get depends on the registry, and nobody asks it unless told to.",
		args: []string{"explain", webImage, "-n", "shop"},
	},
	{
		so:   "And why a pod of that team would not get the private image: this asks, and takes nobody's proof away.",
		args: []string{"explain", ledgerImage, "-n", "shop", "--ask"},
	},
}

// showOperator shows what the command line that lies beside the daemon says of the node.
func showOperator(ctx context.Context, w *world, out *printer) error {
	out.text(0, bold, "What an operator sees")
	for _, l := range looks {
		screen, err := pullwarden(ctx, w, l.args)
		if err != nil {
			return fmt.Errorf("%s: %w", l.args[0], err)
		}
		out.look(l, screen)
	}
	return nil
}

func pullwarden(ctx context.Context, w *world, args []string) (screen string, err error) {
	command := filepath.Join(filepath.Dir(w.node.Options.Binary), "pullwarden")
	cmd := exec.CommandContext(ctx, command, append([]string{"--address", w.node.Address()}, args...)...) //nolint:gosec // what was built with the daemon
	cmd.Env = append(os.Environ(), fmt.Sprintf("COLUMNS=%d", width-lookIndent))
	text, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if exit.ExitCode() == degraded {
			err = nil
		} else {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
	}
	return string(text), err
}

func (p *printer) look(l look, screen string) {
	p.text(lookIndent, plain, l.so)
	p.blank()
	p.text(lookIndent, bold, "$ pullwarden "+strings.Join(l.args, " "))
	p.lines(lookIndent, screen)
	p.blank()
}
