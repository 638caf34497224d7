// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
)

// CommandResult is what a run of the command line has left.
type CommandResult struct {
	Stdout, Stderr string
	Code           int
}

// Command runs the command line that lies beside the containerd under test, for this
// node. A run that does not end by itself ends the test.
func (n *Node) Command(args ...string) CommandResult {
	n.T.Helper()
	binary, err := Binary()
	n.Must(err)
	args = append([]string{"--address", n.Address(), "--config", n.Path("config.toml")}, args...)
	cmd := exec.CommandContext(n.T.Context(), filepath.Join(filepath.Dir(binary), "pullwarden"), args...) //nolint:gosec // the caller's own binary
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exited.Exited()) {
		n.T.Fatalf("%v: build it with: make build", err)
	}
	return CommandResult{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}
