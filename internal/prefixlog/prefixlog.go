// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prefixlog logs through containerd's loggers, with pullwarden's name before
// each message: its lines stand among those of the whole daemon.
package prefixlog

import (
	"context"
	"fmt"

	"github.com/containerd/log"
)

const prefix = "pullwarden: "

// Entry is a [log.Entry] whose messages begin with pullwarden's name. Messages
// are given without it. Get one from [G] or [L]; the zero value is of no use.
type Entry struct{ entry *log.Entry }

// G returns an entry of the context's logger, with its fields; without one, of
// the global logger.
func G(ctx context.Context) Entry { return Entry{log.G(ctx)} }

// L returns an entry of the global logger, for events that no request causes.
func L() Entry { return Entry{log.L} }

// WithError adds an error as a field.
func (e Entry) WithError(err error) Entry { return Entry{e.entry.WithError(err)} }

// WithField adds a field.
func (e Entry) WithField(key string, value any) Entry { return Entry{e.entry.WithField(key, value)} }

// WithFields adds several fields.
func (e Entry) WithFields(fields log.Fields) Entry { return Entry{e.entry.WithFields(fields)} }

// Debug logs a message at that level.
func (e Entry) Debug(message string) { e.entry.Debug(prefix + message) }

// Debugf logs a formatted message at that level.
func (e Entry) Debugf(format string, args ...any) { e.logf(log.DebugLevel, format, args...) }

// Info logs a message at that level.
func (e Entry) Info(message string) { e.entry.Info(prefix + message) }

// Infof logs a formatted message at that level.
func (e Entry) Infof(format string, args ...any) { e.logf(log.InfoLevel, format, args...) }

// Warn logs a message at that level.
func (e Entry) Warn(message string) { e.entry.Warn(prefix + message) }

// Warnf logs a formatted message at that level.
func (e Entry) Warnf(format string, args ...any) { e.logf(log.WarnLevel, format, args...) }

// Error logs a message at that level.
func (e Entry) Error(message string) { e.entry.Error(prefix + message) }

// Errorf logs a formatted message at that level.
func (e Entry) Errorf(format string, args ...any) { e.logf(log.ErrorLevel, format, args...) }

func (e Entry) logf(level log.Level, format string, args ...any) {
	if e.entry.Logger.IsLevelEnabled(level) {
		e.entry.Log(level, prefix+fmt.Sprintf(format, args...))
	}
}
