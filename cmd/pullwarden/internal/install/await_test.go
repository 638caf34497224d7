// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script is a systemd and a daemon that answer, one look after the other, what is in it;
// the last answers stand.
type script struct {
	states  []Service
	answers []error
	looks   int
	pid     int
	version string
}

func (s *script) state(context.Context) (Service, error) {
	at := min(s.looks, len(s.states)-1)
	s.looks++
	return s.states[at], nil
}
func (*script) reload(context.Context) error                { return nil }
func (*script) restart(context.Context) error               { return nil }
func (*script) start(context.Context, []string) error       { return nil }
func (*script) active(context.Context, []string) []string   { return nil }
func (*script) stop(context.Context) error                  { return nil }
func (*script) kill(context.Context)                        {}
func (*script) journal(context.Context, time.Time) []string { return nil }
func (*script) kubelet(context.Context) error               { return errors.New("the kubelet is ill") }
func (s *script) daemon(context.Context, string) (running, error) {
	return running{version: s.version, pid: s.pid}, s.answers[min(s.looks, len(s.answers))-1]
}

func TestAwait(t *testing.T) {
	t.Parallel()
	up, none := Service{PID: 8}, Service{}
	for name, test := range map[string]struct {
		script script
		want   expected
		err    string // "" where it gets ready
		after  time.Duration
	}{
		"at once":            {script{states: []Service{up}, answers: []error{nil}, pid: 8, version: "v2"}, expected{version: "v2", before: 7}, "", 0},
		"after a while":      {script{states: []Service{{PID: 7}, none, up}, answers: []error{nil, nil, errors.New("no"), nil}, pid: 8, version: "v2"}, expected{version: "v2", before: 7}, "", 3 * pollInterval},
		"it never answers":   {script{states: []Service{up}, answers: []error{errors.New("no socket")}}, expected{before: 7}, "not ready after 1m0s: no socket", time.Minute},
		"the old one stays":  {script{states: []Service{{PID: 7}}, answers: []error{nil}}, expected{before: 7}, "the daemon from before still runs", time.Minute},
		"another version":    {script{states: []Service{up}, answers: []error{nil}, pid: 8, version: "v1"}, expected{version: "v2"}, "containerd v1 answers, not v2", time.Minute},
		"another process":    {script{states: []Service{up}, answers: []error{nil}, pid: 9}, expected{}, "another process, 9,", time.Minute},
		"it exits and exits": {script{states: []Service{none, {Restarts: 1}, {Restarts: 3, PID: 9}}}, expected{before: 7}, "the daemon has exited 3 times", 2 * pollInterval},
		"systemd gives up":   {script{states: []Service{{Failed: true}}}, expected{}, "systemd has given the daemon up", 0},
		"never started":      {script{states: []Service{{PID: 8, Starting: true}}, answers: []error{nil}, pid: 8}, expected{before: 7}, "not ready after 1m0s: the daemon has not told systemd yet", time.Minute},
		"an ill kubelet":     {script{states: []Service{up}, answers: []error{nil}, pid: 8}, expected{kubelet: true}, "the kubelet is ill", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := await(t.Context(), &test.script, &test.script, test.want, time.Minute)
				if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || time.Since(start) != test.after {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		})
	}
}

// An interrupt does not wait for the time to be over.
func TestAwaitIsInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(pollInterval, cancel)
		s := &script{states: []Service{{}}}
		if err := await(ctx, s, s, expected{}, time.Minute); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
