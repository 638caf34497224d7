// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
)

// No level, and no kind of field, lets a secret through.
func TestLoggers(t *testing.T) {
	var r Redactor
	r.AddCredentials("alice", password)
	for _, level := range []log.Level{log.InfoLevel, log.DebugLevel, log.TraceLevel} {
		var logged bytes.Buffer
		entry := log.L.Dup()
		entry.Logger = like(log.L.Logger)
		entry.Logger.Out, entry.Logger.Formatter, entry.Logger.Level = &logged, log.L.Logger.Formatter, level
		ctx := log.WithLogger(t.Context(), entry)
		quiet := log.G(r.WithQuietLogger(ctx))
		quiet.Info("known from the error")
		if got := logged.Len() == 0; got != (level == log.InfoLevel) {
			t.Errorf("level %v: logged %s", level, &logged)
		}
		for _, l := range []*log.Entry{quiet, log.G(r.WithRedactedLogger(ctx))} {
			logged.Reset()
			l.WithError(errors.New("it is "+password)).WithField("number", 7).WithField("list", []string{password}).
				WithField("text", password).Warn("see https://u:p@host/x?" + password)
			if got := logged.String(); strings.Contains(got, password) || strings.Contains(got, "u:p") ||
				!strings.Contains(got, "https://host/x") || !strings.Contains(got, "number=7") {
				t.Errorf("level %v: logged %s", level, got)
			}
		}
	}
}

// events is a hook that keeps what it is told.
type events []string

func (e *events) Levels() []log.Level { return []log.Level{log.WarnLevel} }

func (e *events) Fire(entry *log.Entry) error {
	*e = append(*e, fmt.Sprint(entry.Message, entry.Data))
	return nil
}

// Hooks, of which one makes events of spans of entries, get no secret, and each entry once.
func TestHooks(t *testing.T) {
	var r Redactor
	r.AddCredentials("alice", password)
	var told events
	entry := log.L.Dup()
	entry.Logger = like(log.L.Logger)
	entry.Logger.Out, entry.Logger.Formatter, entry.Logger.Level = io.Discard, log.L.Logger.Formatter, log.DebugLevel
	entry.Logger.Hooks = map[log.Level][]logrus.Hook{log.WarnLevel: {&told}}
	ctx := r.WithRedactedLogger(r.WithRedactedLogger(log.WithLogger(t.Context(), entry)))
	log.G(ctx).Info("nothing for it")
	log.G(ctx).WithField("field", password).WithError(errors.New(password)).Warn("it is " + password)
	if len(told) != 1 || strings.Contains(told[0], password) || !strings.Contains(told[0], "it is ***") {
		t.Errorf("told %q", told)
	}
	log.G(log.WithLogger(t.Context(), entry)).Warn(password)
	if len(told) != 2 || !strings.Contains(told[1], password) {
		t.Errorf("other loggers have changed: %q", told)
	}
}
