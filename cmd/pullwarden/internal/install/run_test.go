// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInstallUpgradeUninstall(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	before := n.files()
	for _, version := range []string{"one", "two", "three"} {
		n.check(n.install(t.Context(), version))
		if n.binary() != version {
			t.Errorf("%s runs, not %s", n.binary(), version)
		}
	}
	if kept := n.files()[previousDir+"/"+daemon]; kept != "two" {
		t.Errorf("%q was kept", kept)
	}
	calls := len(n.calls)
	n.check(n.install(t.Context(), "three"))
	if len(n.calls) != calls {
		t.Errorf("the same again: %v", n.calls[calls:])
	}
	n.check(n.uninstall())
	if diff := cmp.Diff(before, n.files()); diff != "" || n.binary() != "stock" {
		t.Error(diff)
	}
}

// A daemon that does not come up leaves the node exactly as it was, but for what is kept: that is what runs.
func TestRollback(t *testing.T) {
	t.Parallel()
	for _, versions := range [][]string{nil, {"one"}, {"one", "two"}} {
		n := newFakeNode(t)
		for _, version := range versions {
			n.check(n.install(t.Context(), version))
		}
		before, binary := n.files(), n.binary()
		failure := n.failed(n.install(t.Context(), "bad"))
		if !failure.Restored || len(failure.Log) != 1 || !n.up || n.binary() != binary {
			t.Errorf("after %v: %+v", versions, failure)
		}
		after := n.files()
		for _, name := range binaries() { // what is kept for a rollback is now what runs
			if len(versions) > 0 {
				before[previousDir] = "directory"
				before[previousDir+"/"+name] = after[Dir+"/"+name]
			}
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("after %v:\n%s", versions, diff)
		}
	}
}

// Units that systemd has stopped because the daemon did not come up are started again.
func TestRollbackStartsDependents(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	s := n.release("bad")
	f := n.facts(s)
	f.Service.Dependents = []string{"kubelet.service"}
	failure := n.failed(n.machine.Run(t.Context(), PlanInstall(f, fakeTimeout), f, s, fakeTimeout, func(int) {}))
	if !failure.Restored || n.calls[len(n.calls)-1] != "start kubelet.service" {
		t.Errorf("%+v: %q", failure, n.calls)
	}
}

// A stock containerd that does not come up any more leaves ours in place.
func TestUninstallGoesBack(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	n.check(n.install(t.Context(), "one"))
	before := n.files()
	f := n.facts(&Source{})
	p := PlanUninstall(f, fakeTimeout)
	p.want.Full = "another than answers"
	n.machine.probe = impatient{n}
	failure := n.failed(n.machine.Run(t.Context(), p, f, nil, 2*pollInterval, func(int) {}))
	if diff := cmp.Diff(before, n.files()); diff != "" || !failure.Restored || n.binary() != "one" {
		t.Errorf("%+v\n%s", failure, diff)
	}
}

// impatient is a probe whose daemon exits at once where it is the stock one.
type impatient struct{ *fakeNode }

func (i impatient) daemon(ctx context.Context, address string) (running, error) {
	if i.binary() == "stock" {
		i.up = false
		return running{}, errors.New("it has just exited")
	}
	return i.fakeNode.daemon(ctx, address)
}

// A file that cannot be removed at the end of an uninstall does not bring ours back.
func TestUnremovableFile(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	n.check(n.install(t.Context(), "one"))
	f := n.facts(&Source{})
	p := PlanUninstall(f, fakeTimeout)
	n.check(os.Remove(n.machine.tree.path(Dir, companion)))
	n.check(os.MkdirAll(n.machine.tree.path(Dir, companion, "x"), 0o700)) // a directory that is not empty
	err := n.machine.Run(t.Context(), p, f, nil, fakeTimeout, func(int) {})
	if _, rolledBack := errors.AsType[*Failure](err); err == nil || rolledBack || n.binary() != "stock" || !n.up {
		t.Errorf("%v: %s runs", err, n.binary())
	}
}

// Without the binary that it runs, a drop-in is removed: the node would have no daemon.
func TestLostBinary(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	n.check(n.install(t.Context(), "one"))
	s := n.release("bad")
	f := n.facts(s)
	p := PlanInstall(f, fakeTimeout)
	n.reloads = func() error { // somebody removes all of it in the middle
		return os.RemoveAll(n.machine.tree.path(Dir))
	}
	failure := n.failed(n.machine.Run(t.Context(), p, f, s, fakeTimeout, func(int) {}))
	if failure.Restored || failure.Lost == nil || n.binary() != "stock" || !n.up {
		t.Errorf("%+v: %s runs", failure, n.binary())
	}
	n.check(n.uninstall())
	if n.binary() != "stock" || !n.up {
		t.Errorf("%s runs", n.binary())
	}
}

// A run that was killed before any of its steps ended is set right by the next one: it
// knows what was there before both.
func TestKilledRun(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"two", "bad two", "uninstall"} {
		n := newFakeNode(t)
		n.check(n.install(t.Context(), "one"))
		s := n.release("bad")
		f := n.facts(s)
		r := &run{Machine: n.machine, facts: f, source: s, was: f.original(), begun: map[action]bool{}, plan: PlanInstall(f, fakeTimeout)}
		n.check(r.writePending())
		for _, do := range []action{keepBinaries, placeBinaries, restartDaemon} {
			n.check(r.do(t.Context(), do))
		}
		_, err := n.machine.tree.stage(Dir, daemon, n.release("half").files[daemon], "")
		if err == nil || n.binary() != "bad" {
			t.Fatal(err, n.binary())
		}
		switch next {
		case "two":
			n.check(n.install(t.Context(), "two"))
		case "bad two":
			if failure := n.failed(n.install(t.Context(), "bad two")); !failure.Restored || n.binary() != "one" {
				t.Errorf("%+v: %s runs", failure, n.binary())
			}
		case "uninstall":
			n.check(n.uninstall())
		}
		for path := range n.files() {
			if filepath.Base(path) == "pending.json" || filepath.Base(path)[0] == '.' {
				t.Errorf("%s: %s is still there", next, path)
			}
		}
		if !n.up {
			t.Errorf("%s: %s does not run", next, n.binary())
		}
	}
}

// An interrupt brings back what was there, as a failure does.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	before := n.files()
	ctx, cancel := context.WithCancel(t.Context())
	n.reloads = func() error { cancel(); return nil }
	failure := n.failed(n.install(ctx, "one"))
	if diff := cmp.Diff(before, n.files()); diff != "" || !failure.Restored || !errors.Is(failure, context.Canceled) {
		t.Errorf("%+v\n%s", failure, diff)
	}
}

// A release that cannot be copied leaves everything as it was, without a restart.
func TestUnreadableRelease(t *testing.T) {
	t.Parallel()
	for _, versions := range [][]string{nil, {"one"}} {
		n := newFakeNode(t)
		for _, version := range versions {
			n.check(n.install(t.Context(), version))
		}
		before, calls := n.files(), len(n.calls)
		s := n.release("two")
		f := n.facts(s)
		n.check(os.WriteFile(s.files[companion].Name(), []byte("tw"), 0o600))
		failure := n.failed(n.machine.Run(t.Context(), PlanInstall(f, fakeTimeout), f, s, fakeTimeout, func(int) {}))
		after := n.files()
		for path := range after {
			if filepath.Dir(path) == previousDir || path == previousDir {
				delete(after, path) // the same as what is in place
			}
		}
		if diff := cmp.Diff(before, after); diff != "" || !failure.Restored || len(n.calls) > calls {
			t.Errorf("%v %v\n%s", failure, n.calls, diff)
		}
	}
}

// Two runs at once do not meet.
func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	n := newFakeNode(t)
	unlock, err := n.machine.Lock()
	n.check(err)
	if err := n.install(t.Context(), "one"); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	unlock()
	n.check(n.install(t.Context(), "one"))
}
