// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"
	"strings"

	"github.com/containerd/log"

	"github.com/pullwarden/pullwarden/internal/kinds"
	"github.com/pullwarden/pullwarden/internal/plural"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// kindBurst is how many lines of a kind are written at once: more than one thing logs so often that
// goes wrong by itself.
const kindBurst = 20

// WithBoundedLogger is WithRedactedLogger for a pull, and bounds the lines of a kind above level
// debug: containerd writes some for each attribute of each file of a layer. told is called at the
// end, and tells how many are left out.
func (r *Redactor) WithBoundedLogger(ctx context.Context) (bounded context.Context, told func()) {
	of := kinds.New(kindBurst)
	return r.withLogger(ctx, log.G(ctx).Logger.GetLevel(), of), func() { tellLeft(ctx, of) }
}

// Bounded is WithBoundedLogger where nobody's secrets are known: lines at level debug stay as they
// are.
func Bounded(ctx context.Context) (bounded context.Context, told func()) {
	of, entry := kinds.New(kindBurst), log.G(ctx)
	return log.WithLogger(ctx, changed(entry, entry.Logger.GetLevel(), lines{kinds: of})), func() { tellLeft(ctx, of) }
}

func tellLeft(ctx context.Context, of *kinds.Kinds) {
	if left := of.Left(); left > 0 {
		prefixlog.G(ctx).Warnf("%s left out of the log, which has others like them", plural.Do(left, "line", "is", "are"))
	}
}

// lines is what becomes of the lines of a logger.
type lines struct {
	redactor *Redactor    // nil: those that are bounded are kept short
	kinds    *kinds.Kinds // nil: they are not bounded
}

// again is the same for another writer, which counts by itself.
func (l lines) again() lines {
	if l.kinds != nil {
		l.kinds = kinds.New(kindBurst)
	}
	return l
}

// take returns the entry that is written in the place of another; not ok for none.
func (l lines) take(e *log.Entry) (taken *log.Entry, ok bool) {
	if l.kinds == nil || e.Level >= log.DebugLevel {
		return l.clean(e), true
	}
	left, ok := l.kinds.Take(lineKind(e.Message)) // first: to look for secrets takes time
	if !ok {
		return nil, false
	}
	r := l.redactor
	if r == nil {
		r = new(Redactor)
	}
	taken = r.entry(e)
	taken.Message = kinds.Told(taken.Message, left)
	return taken, true
}

func (l lines) clean(e *log.Entry) *log.Entry {
	if l.redactor == nil {
		return e
	}
	return l.redactor.entry(e)
}

// kindWords are those of a message that tell its kind. What an image says comes behind them, or is
// quoted.
const kindWords = 2

func lineKind(message string) string {
	message, _, _ = strings.Cut(message[:min(len(message), kinds.MaxName)], `"`)
	words := strings.Fields(message)
	return strings.Join(words[:min(len(words), kindWords)], " ")
}
