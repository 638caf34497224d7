// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/log"

	"github.com/pullwarden/pullwarden/internal/kinds"
)

// WithQuietLogger returns a context whose logger is redacted, and leaves out what
// docker's resolver logs at level info and returns as an error anyway. At level
// debug it leaves out nothing. The errors of spans are redacted, too.
func (r *Redactor) WithQuietLogger(ctx context.Context) context.Context {
	level := log.WarnLevel
	if debug := log.G(ctx).Logger.GetLevel(); debug >= log.DebugLevel {
		level = debug
	}
	return r.withLogger(ctx, level, nil)
}

// WithRedactedLogger returns a context in which what is logged repeats no secrets, at
// no level, nor do the errors of spans. Docker's resolver and fetcher log whole answers.
func (r *Redactor) WithRedactedLogger(ctx context.Context) context.Context {
	return r.withLogger(ctx, log.G(ctx).Logger.GetLevel(), nil)
}

// Mute returns a context in which nothing but errors is logged: a text that was cut in the middle
// of a secret cannot be cleaned.
func Mute(ctx context.Context) context.Context {
	return new(Redactor).withLogger(ctx, log.ErrorLevel, nil)
}

// withLogger redacts the spans, too: what fails is told in both. Lines of these kinds are bounded;
// nil for none.
func (r *Redactor) withLogger(ctx context.Context, level log.Level, of *kinds.Kinds) context.Context {
	ctx = r.withSpans(ctx)
	entry := log.G(ctx)
	if f, ok := entry.Logger.Formatter.(*formatter); ok && f.redactor == r && level == entry.Logger.GetLevel() && of == nil {
		return ctx // it is redacted
	}
	return log.WithLogger(ctx, changed(entry, level, lines{redactor: r, kinds: of}))
}

// changed is an entry whose logger writes what becomes of lines.
func changed(entry *log.Entry, level log.Level, by lines) *log.Entry {
	logger := like(entry.Logger)
	logger.Out, logger.Hooks = entry.Logger.Out, maps.Clone(entry.Logger.Hooks)
	if len(logger.Hooks) > 0 {
		clear(logger.Hooks)
		logger.AddHook(&hook{lines: by.again(), next: entry.Logger.Hooks})
	}
	logger.ReportCaller, logger.ExitFunc, logger.BufferPool = entry.Logger.ReportCaller, entry.Logger.ExitFunc, entry.Logger.BufferPool
	logger.Formatter = &formatter{lines: by, next: entry.Logger.Formatter}
	logger.Level = level
	own := entry.Dup()
	own.Logger = logger
	return own
}

// like returns a new value of the type of another: a logger must not be
// copied, since it holds a lock.
func like[T any](*T) *T { return new(T) }

// formatter formats entries without secrets, and without users and queries of
// URLs.
type formatter struct {
	lines
	next interface {
		Format(e *log.Entry) ([]byte, error)
	}
}

// headerPrefix begins the fields in which docker's resolver logs the headers of a
// request, in lower case.
const headerPrefix = "request.header."

// shownHeaders are those that docker's resolver sets by itself. The values of
// others are the configuration's, and however short they are, they may be secret.
var shownHeaders = []string{"accept", "accept-encoding", "content-type", "range", "user-agent"}

// answerPrefix is headerPrefix for answers.
const answerPrefix = "response.header."

// toldHeaders are those of answers that say what an answer is, or who gave it and when. Hosts may
// send any others, of which each name may be the beginning of a secret, and its value the end.
var toldHeaders = []string{
	"accept-ranges", "age", "cache-control", "cf-ray", "connection", "content-encoding", "content-length", "content-range", "content-type",
	"date", "docker-content-digest", "docker-distribution-api-version", "docker-ratelimit-source", "etag", "last-modified", "link", "location",
	"ratelimit-limit", "ratelimit-remaining", "retry-after", "server", "transfer-encoding", "vary", "via", "warning", "www-authenticate",
	"x-amz-request-id", "x-amzn-requestid", "x-cache", "x-github-request-id", "x-ms-request-id", "x-request-id",
}

// isTold reports whether a field is logged. Of headers of answers that come several times, docker's
// resolver ends the names by an index: those are not told, since a host may choose a name that ends
// so.
func isTold(key string) bool {
	header, ok := strings.CutPrefix(key, answerPrefix)
	return !ok || slices.Contains(toldHeaders, header)
}

// Format implements the formatter of a logger, which writes the empty line of an entry that is left out.
func (f *formatter) Format(e *log.Entry) ([]byte, error) {
	e, ok := f.take(e)
	if !ok {
		return nil, nil
	}
	return f.next.Format(e)
}

// hook passes entries on without secrets: containerd has a hook that makes events of spans of
// them.
type hook struct {
	lines
	next interface {
		Fire(level log.Level, e *log.Entry) error
	}
}

// Levels implements the hook of a logger.
func (h *hook) Levels() (all []log.Level) {
	for level := range log.TraceLevel + 1 {
		all = append(all, level)
	}
	return all
}

// Fire implements the hook of a logger.
func (h *hook) Fire(e *log.Entry) error {
	e, ok := h.take(e)
	if !ok {
		return nil
	}
	return h.next.Fire(e.Level, e)
}

// entry returns an entry without secrets.
func (r *Redactor) entry(e *log.Entry) *log.Entry {
	clean := *e
	clean.Message = r.Clean(e.Message)
	clean.Data = make(log.Fields, len(e.Data))
	for key, value := range e.Data {
		if !isTold(key) {
			continue
		}
		name := r.hide(key, false) // docker's resolver logs the names of an answer's headers
		clean.Data[name] = r.field(value)
		if header, ok := strings.CutPrefix(key, headerPrefix); ok && !slices.Contains(shownHeaders, header) {
			clean.Data[name] = hidden
		}
	}
	return &clean
}

// field returns a value that is harmless as it is, or what it looks like.
func (r *Redactor) field(value any) any {
	switch v := value.(type) {
	case bool, int, int32, int64, uint, uint32, uint64, float64:
		return v
	case error:
		return r.Clean(v.Error())
	case string:
		return r.Clean(v)
	}
	return r.Clean(fmt.Sprint(value))
}
