// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// systemctlTimeout bounds each call of systemctl, none of which waits for a unit.
const systemctlTimeout = 30 * time.Second

// systemctl drives the systemd that runs the machine.
type systemctl struct{}

// state returns what systemd knows of the unit, with the paths of its files.
func (s systemctl) state(ctx context.Context) (Service, error) {
	out, err := s.call(ctx, "show", Unit, "--property=LoadState,ActiveState,FragmentPath,DropInPaths,MainPID,NRestarts,KillMode,NeedDaemonReload,RequiredBy,RequisiteOf,BoundBy,ConsistsOf")
	if err != nil {
		return Service{}, err
	}
	return parseState(out), nil
}

// parseState reads what systemctl show prints.
func parseState(out string) Service {
	values := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	s := Service{
		Load: values["LoadState"], Active: values["ActiveState"] != "inactive" && values["ActiveState"] != "failed", Failed: values["ActiveState"] == "failed",
		Starting: values["ActiveState"] == "activating", KillMode: values["KillMode"], Stale: values["NeedDaemonReload"] == "yes",
	}
	s.PID, _ = strconv.Atoi(values["MainPID"])        // 0 for none
	s.Restarts, _ = strconv.Atoi(values["NRestarts"]) // 0 where systemd is too old to count
	if path := values["FragmentPath"]; path != "" {
		s.Files = append(s.Files, UnitFile{Path: path})
	}
	for path := range strings.FieldsSeq(values["DropInPaths"]) {
		s.Files = append(s.Files, UnitFile{Path: path})
	}
	for _, key := range []string{"RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf"} {
		s.Dependents = append(s.Dependents, strings.Fields(values[key])...)
	}
	return s
}

// active returns those of the units that run.
func (s systemctl) active(ctx context.Context, units []string) (running []string) {
	for _, unit := range units {
		if _, err := s.call(ctx, "is-active", "--", unit); err == nil {
			running = append(running, unit)
		}
	}
	return running
}

// start begins to start units that do not run.
func (s systemctl) start(ctx context.Context, units []string) error {
	if len(units) == 0 {
		return nil
	}
	_, err := s.call(ctx, append([]string{"start", "--no-block", "--"}, units...)...)
	return err
}

func (s systemctl) reload(ctx context.Context) error {
	_, err := s.call(ctx, "daemon-reload")
	return err
}

// restart begins a restart, without waiting for a daemon that may never say that it is
// ready. A unit that has failed too often is begun anew.
func (s systemctl) restart(ctx context.Context) error {
	_, _ = s.call(ctx, "reset-failed", Unit) // an error means that it has not failed
	_, err := s.call(ctx, "restart", "--no-block", Unit)
	return err
}

// kill ends the daemon at once: one that hangs would use up the time of a stop. Its
// containers' shims are no main process.
func (s systemctl) kill(ctx context.Context) {
	_, _ = s.call(ctx, "kill", "--kill-who=main", "--signal=SIGKILL", Unit) // an error means that it does not run
}

func (s systemctl) stop(ctx context.Context) error {
	_, err := s.call(ctx, "stop", "--no-block", Unit)
	return err
}

// journal returns the unit's last log lines since then, the newest last.
func (systemctl) journal(ctx context.Context, since time.Time) []string {
	ctx, cancel := context.WithTimeout(ctx, systemctlTimeout)
	defer cancel()
	from := "--since=@" + strconv.FormatInt(since.Unix(), 10)
	// Without --reverse, systemd before 254 takes the first lines since then.
	cmd := exec.CommandContext(ctx, "journalctl", "--unit="+Unit, from, "--reverse", "--lines=15", "--no-pager", "--output=cat", "--quiet") //nolint:gosec // fixed words, and a number
	out, err := cmd.Output()
	if err != nil {
		return []string{"(the journal cannot be read: " + err.Error() + ")"}
	}
	lines := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
	slices.Reverse(lines)
	return lines
}

// call runs systemctl. In a chroot it would do nothing, and succeed, were it not told that
// this one is the machine's root.
func (systemctl) call(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, systemctlTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", args...) //nolint:gosec // fixed words
	cmd.Env = append(os.Environ(), "SYSTEMD_IGNORE_CHROOT=1", "LC_ALL=C")
	out, err := cmd.Output()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("systemctl %s: %w: %s", args[0], err, strings.TrimSpace(string(exited.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w", args[0], err)
	}
	return string(out), nil
}
