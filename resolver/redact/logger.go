// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/log"
)

// WithQuietLogger returns a context whose logger is redacted, and leaves out what
// docker's resolver logs at level info and returns as an error anyway. At level
// debug it leaves out nothing.
func (r *Redactor) WithQuietLogger(ctx context.Context) context.Context {
	level := log.WarnLevel
	if debug := log.G(ctx).Logger.GetLevel(); debug >= log.DebugLevel {
		level = debug
	}
	return r.withLogger(ctx, level)
}

// WithRedactedLogger returns a context in which what is logged repeats no secrets, at
// no level. Docker's resolver and fetcher log whole answers.
func (r *Redactor) WithRedactedLogger(ctx context.Context) context.Context {
	return r.withLogger(ctx, log.G(ctx).Logger.GetLevel())
}

func (r *Redactor) withLogger(ctx context.Context, level log.Level) context.Context {
	entry := log.G(ctx)
	logger := like(entry.Logger)
	logger.Out, logger.Hooks = entry.Logger.Out, entry.Logger.Hooks
	logger.ReportCaller, logger.ExitFunc, logger.BufferPool = entry.Logger.ReportCaller, entry.Logger.ExitFunc, entry.Logger.BufferPool
	logger.Formatter = &formatter{next: entry.Logger.Formatter, redactor: r}
	logger.Level = level
	own := entry.Dup()
	own.Logger = logger
	return log.WithLogger(ctx, own)
}

// like returns a new value of the type of another: a logger must not be
// copied, since it holds a lock.
func like[T any](*T) *T { return new(T) }

// formatter formats entries without secrets, and without users and queries of
// URLs.
type formatter struct {
	next interface {
		Format(e *log.Entry) ([]byte, error)
	}
	redactor *Redactor
}

// headerPrefix begins the fields in which docker's resolver logs the headers of a
// request, in lower case.
const headerPrefix = "request.header."

// shownHeaders are those that docker's resolver sets by itself. The values of
// others are the configuration's, and however short they are, they may be secret.
var shownHeaders = []string{"accept", "accept-encoding", "content-type", "range", "user-agent"}

// Format implements the formatter of a logger.
func (f *formatter) Format(e *log.Entry) ([]byte, error) {
	clean := *e
	clean.Message = f.redactor.Clean(e.Message)
	clean.Data = make(log.Fields, len(e.Data))
	for key, value := range e.Data {
		clean.Data[key] = f.field(value)
		if header, ok := strings.CutPrefix(key, headerPrefix); ok && !slices.Contains(shownHeaders, header) {
			clean.Data[key] = hidden
		}
	}
	return f.next.Format(&clean)
}

// field returns a value that is harmless as it is, or what it looks like.
func (f *formatter) field(value any) any {
	switch v := value.(type) {
	case bool, int, int32, int64, uint, uint32, uint64, float64:
		return v
	case error:
		return f.redactor.Clean(v.Error())
	case string:
		return f.redactor.Clean(v)
	}
	return f.redactor.Clean(fmt.Sprint(value))
}
