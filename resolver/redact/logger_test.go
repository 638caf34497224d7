// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/containerd/log"
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
