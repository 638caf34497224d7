// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// ErrBusy says that another run is under way.
var ErrBusy = errors.New("another pullwarden install or uninstall is under way")

// Failure is a run that did not succeed.
type Failure struct {
	Step     Step
	Reason   error
	Restored bool     // what was there before is there again, and was seen to work
	Lost     error    // why it is not
	Log      []string // containerd's last lines, when it was the daemon that failed
}

// Error implements error.
func (f *Failure) Error() string { return f.Reason.Error() }

// Unwrap returns the reason.
func (f *Failure) Unwrap() error { return f.Reason }

// run is one under way.
type run struct {
	*Machine

	plan    Plan
	facts   *Facts
	source  *Source // nil where nothing is installed
	was     Original
	timeout time.Duration
	begun   map[action]bool
	since   time.Time // of the restart
}

// Run does the steps of a plan that has no refusals; begin is told of each, by its index. A
// step that fails, or the end of the context, brings back what was there. The error is a
// Failure then; before the first step it is another. The caller has held Lock since before
// it looked: the facts of another run's middle would be what a failure brings back.
func (m *Machine) Run(ctx context.Context, plan Plan, facts *Facts, source *Source, timeout time.Duration, begin func(step int)) error {
	if len(plan.Steps) == 0 {
		return nil
	}
	r := &run{Machine: m, plan: plan, facts: facts, source: source, was: facts.original(), timeout: timeout, begun: map[action]bool{}, since: time.Now()}
	if err := r.writePending(); err != nil {
		return fmt.Errorf("nothing has been changed: %w", errors.Join(err, m.tree.removePending()))
	}
	for i, step := range plan.Steps {
		begin(i)
		r.begun[step.do] = true
		err := r.do(ctx, step.do)
		if err != nil && step.do == removeFiles { // the node is back by then, and needs them no more
			return fmt.Errorf("the node's own containerd runs, but not all files could be removed: %w", errors.Join(err, m.tree.removePending()))
		}
		if err != nil {
			return r.fail(ctx, step, err)
		}
	}
	if err := errors.Join(m.tree.clean(), m.tree.removePending()); err != nil {
		return fmt.Errorf("all steps are done, but what they need no more is still there: %w", err)
	}
	return nil
}

// Lock keeps a second run away until the returned function is called. The error is ErrBusy
// where one is under way.
func (m *Machine) Lock() (unlock func(), err error) {
	f, err := os.OpenFile(m.tree.path(lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(ErrBusy, f.Close())
	}
	return func() {
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // a child that has yet to exec has the file as well
		_ = f.Close()
	}, nil
}

// writePending writes down what is there, unless an unfinished run has: that knows better.
func (r *run) writePending() error {
	if r.facts.Pending != nil {
		return nil
	}
	text, err := json.MarshalIndent(r.was, "", "  ")
	if err != nil {
		return err
	}
	return r.tree.writeText(pendingFile, string(text)+"\n")
}

// removePending says that no run is under way.
func (t tree) removePending() error {
	if err := remove(t.path(pendingFile)); err != nil {
		return err
	}
	_ = os.Remove(t.path(stateDir)) // it has nothing else
	return nil
}

// do does a step.
func (r *run) do(ctx context.Context, do action) error {
	if ctx.Err() != nil && do != removeFiles { // the last step of all
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	switch do {
	case keepBinaries:
		return r.keep()
	case placeBinaries:
		return r.place()
	case writeDropIn:
		return r.tree.writeText(DropIn, r.plan.dropIn)
	case removeDropIn:
		return r.tree.removeDropIn()
	case restartDaemon:
		return r.restart(ctx)
	case awaitCRI:
		return await(ctx, r.sys, r.probe, expected{r.facts.Config.Address, r.plan.want.Full, r.facts.Service.PID, r.facts.Kubelet}, r.timeout)
	case removeFiles:
		return r.tree.removeFiles(r.facts.Package != "")
	}
	return fmt.Errorf("there is no step %d", do)
}

// restart has the daemon begun anew by what the files say.
func (r *run) restart(ctx context.Context) error {
	r.since = time.Now()
	if err := r.tree.label(r.facts.Stock.Path); err != nil {
		return err
	}
	if err := r.sys.reload(ctx); err != nil {
		return err
	}
	if r.facts.Pending != nil && r.facts.CRI != "" {
		r.sys.kill(ctx) // what an unfinished run has left may hang
	}
	return r.sys.restart(ctx)
}

// keep has the binaries from before under previousDir.
func (r *run) keep() error {
	for _, name := range binaries() {
		was := r.was.Binaries[name]
		if was == "" {
			continue
		}
		kept, err := r.tree.digest(previousDir + "/" + name)
		if err != nil {
			return err
		}
		switch {
		case kept == was:
		case r.facts.Placed[name] == was:
			err = r.tree.link(Dir+"/"+name, previousDir+"/"+name)
		case name == daemon && r.facts.Service.Digest == was:
			err = r.keepRunning(was)
		default:
			err = fmt.Errorf("the %s that was there before is gone", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepRunning copies the binary that runs, whose file a package has replaced.
func (r *run) keepRunning(digest string) error {
	f, err := os.Open(r.tree.path("/proc", strconv.Itoa(r.facts.Service.PID), "exe"))
	if err != nil {
		return err
	}
	defer f.Close()
	staged, err := r.tree.stage(previousDir, daemon, f, digest)
	if err != nil {
		return err
	}
	return r.tree.put(staged, previousDir+"/"+daemon)
}

// place puts the release's binaries into Dir, once both are on the disk.
func (r *run) place() error {
	staged := map[string]string{}
	for _, name := range binaries() {
		from, err := r.source.reader(name)
		if err != nil {
			return err
		}
		if staged[name], err = r.tree.stage(Dir, name, from, r.source.Digests[name]); err != nil {
			return err
		}
	}
	for _, name := range binaries() {
		if err := r.tree.put(staged[name], Dir+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// removeDropIn removes the file, and its directory where nothing else is in it.
func (t tree) removeDropIn() error {
	if err := remove(t.path(DropIn)); err != nil {
		return err
	}
	dir := filepath.Dir(DropIn)
	if err := os.Remove(t.path(dir)); err == nil {
		return t.sync(filepath.Dir(dir))
	}
	if err := t.sync(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeFiles removes the binaries; of a package's, only what it does not know.
func (t tree) removeFiles(packaged bool) error {
	errs := []error{t.clean(), os.RemoveAll(t.path(previousDir))}
	if !packaged {
		for _, name := range binaries() {
			errs = append(errs, remove(t.path(Dir, name)))
		}
		_ = os.Remove(t.path(Dir)) // what others have put there stays
	}
	return errors.Join(errs...)
}
