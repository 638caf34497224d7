// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"

	"github.com/containerd/log"
)

// quietly keeps docker's resolver from logging at level info what it returns
// as an error anyway: its text has the URLs of redirects, whose queries may be
// credentials. Where level debug is on, nothing is held back.
func quietly(ctx context.Context) context.Context {
	entry := log.G(ctx)
	if entry.Logger.IsLevelEnabled(log.DebugLevel) {
		return ctx
	}
	logger := like(entry.Logger)
	logger.Out, logger.Formatter, logger.Hooks = entry.Logger.Out, entry.Logger.Formatter, entry.Logger.Hooks
	logger.ReportCaller, logger.ExitFunc, logger.BufferPool = entry.Logger.ReportCaller, entry.Logger.ExitFunc, entry.Logger.BufferPool
	logger.Level = log.WarnLevel
	quiet := entry.Dup()
	quiet.Logger = logger
	return log.WithLogger(ctx, quiet)
}

// like returns a new value of the type of another: a logger must not be
// copied, since it holds a lock.
func like[T any](*T) *T { return new(T) }
