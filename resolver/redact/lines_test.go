// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
)

// logging is a context with a logger at that level, whose lines and events of hooks are returned.
func logging(t *testing.T, level log.Level) (ctx context.Context, logged *bytes.Buffer, told *events) {
	t.Helper()
	logged, told = new(bytes.Buffer), new(events)
	entry := log.L.Dup()
	entry.Logger = like(log.L.Logger)
	entry.Logger.Out, entry.Logger.Formatter, entry.Logger.Level = logged, log.L.Logger.Formatter, level
	entry.Logger.Hooks = map[log.Level][]logrus.Hook{log.WarnLevel: {told}}
	return log.WithLogger(t.Context(), entry), logged, told
}

// An image says how often containerd warns, and of what: some of these lines are written, and how many there were.
func TestLinesOfAnImageAreBounded(t *testing.T) { synctest.Test(t, linesOfAnImageAreBounded) } // others follow in time

func linesOfAnImageAreBounded(t *testing.T) {
	const lines = 2_000
	var r Redactor
	r.AddCredentials("alice", password)
	for what, with := range map[string]func(context.Context) (context.Context, func()){"pull": r.WithBoundedLogger, "container": Bounded} {
		ctx, logged, told := logging(t, log.DebugLevel)
		bounded, end := with(ctx)
		for i := range lines {
			log.G(bounded).WithError(errors.New("not supported")).Warnf("ignored xattr %d%s in archive", i, strings.Repeat("x", i*10))
			log.G(bounded).WithField("n", i).Warnf("file %q ignored", fmt.Sprint(i))
		}
		log.G(bounded).Warn("something else: " + "https://u:p@host/x")
		end()
		text := logged.String()
		for _, kind := range []string{"ignored xattr", "file "} {
			if n := strings.Count(text, kind); n != kindBurst {
				t.Errorf("%s: %d lines of %q", what, n, kind)
			}
		}
		if len(text) > 100_000 || len(*told) > 2*kindBurst+2 {
			t.Errorf("%s: %d bytes, and %d events", what, len(text), len(*told))
		}
		if !strings.Contains(text, "something else: https://host/x") || !strings.Contains(text, fmt.Sprintf("pullwarden: %d lines are left out", 2*(lines-kindBurst))) {
			t.Errorf("%s: logged %.2000s", what, text)
		}
	}
}

// Nothing is told of where nothing is left out. Lines at level debug are all written: whoever wants these wants all.
func TestLinesAtLevelDebugStay(t *testing.T) {
	for what, level := range map[string]log.Level{"debug": log.DebugLevel, "info": log.InfoLevel} {
		ctx, logged, _ := logging(t, level)
		bounded, end := Bounded(ctx)
		long := strings.Repeat("x ", MaxText)
		for range 10 * kindBurst {
			log.G(bounded).Debug("it is " + long)
		}
		log.G(bounded).Info("hello")
		end()
		n, want := strings.Count(logged.String(), long), 0
		if level == log.DebugLevel {
			want = 10 * kindBurst
		}
		if n != want || strings.Contains(logged.String(), "left out") || !strings.Contains(logged.String(), "hello") {
			t.Errorf("%s: %d whole lines, want %d", what, n, want)
		}
	}
}

// Fetchers of a pull have its logger: theirs has the same secrets.
func TestBoundedLoggersAreRedacted(t *testing.T) {
	var r Redactor
	r.AddCredentials("alice", password)
	ctx, logged, told := logging(t, log.InfoLevel)
	bounded, end := r.WithBoundedLogger(ctx)
	if again := r.WithRedactedLogger(bounded); log.G(again).Logger != log.G(bounded).Logger {
		t.Error("it is redacted twice")
	}
	for _, ctx := range []context.Context{bounded, r.WithQuietLogger(bounded)} {
		for range 2 * kindBurst {
			log.G(ctx).WithField("field", password).Warn("it is " + password)
		}
	}
	end()
	text := logged.String() + fmt.Sprint(*told)
	if n := strings.Count(logged.String(), "it is ***"); n != kindBurst || strings.Contains(text, password) {
		t.Errorf("%d lines: %s", n, text)
	}
}
