// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"

	"github.com/containerd/log"
)

// quietly returns a context in which docker's resolver is discreet, and does not
// log at level info what it returns as an error anyway.
func (s *secrets) quietly(ctx context.Context) context.Context {
	level := log.WarnLevel
	if debug := log.G(ctx).Logger.GetLevel(); debug >= log.DebugLevel {
		level = debug
	}
	return s.logging(ctx, level)
}

// discreetly returns a context in which what is logged repeats no secrets, at
// no level. Docker's resolver and fetcher log whole answers.
func (s *secrets) discreetly(ctx context.Context) context.Context {
	return s.logging(ctx, log.G(ctx).Logger.GetLevel())
}

func (s *secrets) logging(ctx context.Context, level log.Level) context.Context {
	entry := log.G(ctx)
	logger := like(entry.Logger)
	logger.Out, logger.Hooks = entry.Logger.Out, entry.Logger.Hooks
	logger.ReportCaller, logger.ExitFunc, logger.BufferPool = entry.Logger.ReportCaller, entry.Logger.ExitFunc, entry.Logger.BufferPool
	logger.Formatter = &discreet{formatter: entry.Logger.Formatter, secrets: s}
	logger.Level = level
	own := entry.Dup()
	own.Logger = logger
	return log.WithLogger(ctx, own)
}

// like returns a new value of the type of another: a logger must not be
// copied, since it holds a lock.
func like[T any](*T) *T { return new(T) }

// discreet formats entries without secrets, and without users and queries of
// URLs.
type discreet struct {
	formatter interface {
		Format(e *log.Entry) ([]byte, error)
	}
	secrets *secrets
}

// Format implements the formatter of a logger.
func (d *discreet) Format(e *log.Entry) ([]byte, error) {
	clean := *e
	clean.Message = d.secrets.clean(e.Message)
	clean.Data = make(log.Fields, len(e.Data))
	for key, value := range e.Data {
		clean.Data[key] = d.field(value)
	}
	return d.formatter.Format(&clean)
}

// field returns a value that is harmless as it is, or what it looks like.
func (d *discreet) field(value any) any {
	switch v := value.(type) {
	case bool, int, int32, int64, uint, uint32, uint64, float64:
		return v
	case error:
		return d.secrets.clean(v.Error())
	case string:
		return d.secrets.clean(v)
	}
	return d.secrets.clean(fmt.Sprint(value))
}
