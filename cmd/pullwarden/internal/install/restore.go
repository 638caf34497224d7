// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// restoreTimeout is how long the daemon from before has at least: there is nothing else to
// go back to.
const restoreTimeout = 2 * time.Minute

// fail brings back what was there before the run, also where the context has ended: the
// node comes first.
func (r *run) fail(ctx context.Context, step Step, reason error) error {
	ctx = context.WithoutCancel(ctx)
	failure := &Failure{Step: step, Reason: reason}
	if r.begun[restartDaemon] {
		failure.Log = r.sys.journal(ctx, r.since) // before the restart adds to it
	}
	failure.Lost = r.restore(ctx)
	if failure.Lost == nil {
		failure.Lost = r.tree.removePending()
	}
	failure.Restored = failure.Lost == nil
	return failure
}

// restore undoes the steps that were begun.
func (r *run) restore(ctx context.Context) error {
	restarted := r.begun[restartDaemon] || r.facts.Pending != nil
	errs := []error{r.tree.clean()}
	if r.begun[placeBinaries] || restarted {
		for _, name := range binaries() {
			errs = append(errs, r.restoreBinary(name))
		}
	}
	version, err := r.restoreDropIn()
	errs = append(errs, err)
	if r.was.Binaries[daemon] == "" && r.was.Binaries[companion] == "" {
		_ = os.Remove(r.tree.path(previousDir)) // if the run has made them
		_ = os.Remove(r.tree.path(Dir))
	}
	if restarted || r.begun[writeDropIn] || r.begun[removeDropIn] {
		errs = append(errs, r.sys.reload(ctx))
	}
	if restarted {
		errs = append(errs, r.resume(ctx, version))
	}
	return errors.Join(errs...)
}

// restoreDropIn has the drop-in from before in place, or none, and returns the version that
// runs by it. Without the binary that it runs it is removed: the unit's own is better than
// no daemon.
func (r *run) restoreDropIn() (version string, err error) {
	if r.was.DropIn == nil {
		return r.was.Version, r.tree.removeDropIn()
	}
	if _, err := os.Stat(r.tree.path(Dir, daemon)); err != nil {
		return "", errors.Join(fmt.Errorf("%s is removed, since what it runs is gone: %w", DropIn, err), r.tree.removeDropIn())
	}
	if now, err := r.tree.text(DropIn); err == nil && now != nil && *now == *r.was.DropIn {
		return r.was.Version, nil
	}
	return r.was.Version, r.tree.writeText(DropIn, *r.was.DropIn)
}

// restoreBinary has the binary from before in place, or none.
func (r *run) restoreBinary(name string) error {
	path := Dir + "/" + name
	now, err := r.tree.digest(path)
	if err != nil {
		return err
	}
	was := r.was.Binaries[name]
	if now == was {
		return nil
	}
	if was == "" {
		return remove(r.tree.path(path))
	}
	kept, err := r.tree.digest(previousDir + "/" + name)
	if err != nil {
		return err
	}
	if kept != was {
		return fmt.Errorf("the %s from before is neither in %s nor in %s", name, Dir, previousDir)
	}
	return r.tree.link(previousDir+"/"+name, path)
}

// resume has the daemon from before run again, if it did; "" is any version.
func (r *run) resume(ctx context.Context, version string) error {
	now, err := r.sys.state(ctx)
	if err != nil {
		return err
	}
	if !r.was.Active {
		r.sys.kill(ctx)
		return r.sys.stop(ctx)
	}
	r.sys.kill(ctx)
	if err := r.sys.restart(ctx); err != nil {
		return err
	}
	if err := r.sys.start(ctx, r.was.Dependents); err != nil {
		return err
	}
	if !r.was.CRI {
		return nil // there is nothing to compare with
	}
	return await(ctx, r.sys, r.probe, expected{r.facts.Config.Address, version, now.PID, r.facts.Kubelet}, max(r.timeout, restoreTimeout))
}
