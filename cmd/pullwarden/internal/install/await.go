// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The daemon is looked at this often, and is given up after so many exits.
const (
	pollInterval = 500 * time.Millisecond
	maxExits     = 3
)

// system is the machine's systemd.
type system interface {
	state(ctx context.Context) (Service, error)
	reload(ctx context.Context) error
	restart(ctx context.Context) error
	active(ctx context.Context, units []string) []string
	start(ctx context.Context, units []string) error
	stop(ctx context.Context) error
	kill(ctx context.Context)
	journal(ctx context.Context, since time.Time) []string
}

// prober asks the daemon and the kubelet.
type prober interface {
	daemon(ctx context.Context, address string) (running, error)
	kubelet(ctx context.Context) error
}

// running is a daemon that answers.
type running struct {
	version    string
	pid        int
	containers int
}

// expected says when a restart has succeeded.
type expected struct {
	address string
	version string // of the daemon; "" for any
	before  int    // the process that was restarted
	kubelet bool   // it has to be well too
}

// await waits until another process than before answers as CRI. The error says why there
// is none: the last reason in time, or that the daemon exits again and again.
func await(ctx context.Context, sys system, p prober, want expected, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	reason := errors.New("nothing has answered yet")
	for {
		final, err := look(limited, sys, p, want)
		if err == nil {
			return nil
		}
		if limited.Err() == nil {
			reason = err // and not that the time is over
		}
		if final {
			return reason
		}
		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted: %w", context.Cause(ctx))
			}
			return fmt.Errorf("not ready after %v: %w", timeout, reason)
		case <-tick.C:
		}
	}
}

// look asks once. It is final where waiting is of no use.
func look(ctx context.Context, sys system, p prober, want expected) (final bool, err error) {
	now, err := sys.state(ctx)
	switch {
	case err != nil:
		return false, err
	case now.Failed:
		return true, errors.New("systemd has given the daemon up")
	case now.Restarts >= maxExits && now.PID != want.before:
		return true, fmt.Errorf("the daemon has exited %d times", now.Restarts)
	case now.PID == 0:
		return false, errors.New("the daemon does not run")
	case now.PID == want.before:
		return false, errors.New("the daemon from before still runs")
	}
	found, err := p.daemon(ctx, want.address)
	switch {
	case found.pid != 0 && found.pid != now.PID:
		return false, fmt.Errorf("another process, %d, answers at %s than that of the unit, %d", found.pid, want.address, now.PID)
	case found.version != "" && want.version != "" && found.version != want.version:
		return false, fmt.Errorf("containerd %s answers, not %s", found.version, want.version)
	case err != nil:
		return false, err
	}
	if now.Starting { // systemd ends it when that does not come in time
		return false, errors.New("the daemon has not told systemd yet that it is ready")
	}
	if want.kubelet {
		return false, p.kubelet(ctx)
	}
	return false, nil
}
