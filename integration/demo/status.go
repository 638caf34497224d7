// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// degraded is the exit code of a node that has something to look at, as this one does.
const degraded = 1

// showStatus shows what the command line that lies beside the daemon says of the node.
func showStatus(ctx context.Context, w *world, out *printer) error {
	command := filepath.Join(filepath.Dir(w.node.Options.Binary), "pullwarden")
	screen, err := exec.CommandContext(ctx, command, "--address", w.node.Address(), "status").Output() //nolint:gosec // what was built with the daemon
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if exit.ExitCode() == degraded {
			err = nil
		} else {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
	}
	if err != nil {
		return fmt.Errorf("show the status: %w", err)
	}
	out.status(string(screen))
	return nil
}

func (p *printer) status(screen string) {
	p.text(0, bold, "What an operator sees")
	p.text(4, plain, "The private image was used while the registry was down, and not checked since. That is told first, and by the exit code 1.")
	p.blank()
	p.text(4, bold, "$ pullwarden status")
	p.lines(4, screen)
	p.blank()
}
