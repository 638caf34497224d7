// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stdlog bounds what goes through the logger of the standard library. net/http has no
// other one for its clients: it quotes what a host sends that nobody asked for, up to 4 KiB at a
// time, which may be the passwords and tokens that the host was sent.
package stdlog

import (
	"io"
	"log"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/pullwarden/pullwarden/internal/quoted"
)

const (
	maxKinds  = 64 // of lines that are told apart
	maxKind   = 64 // bytes of a line that tell
	kindBurst = 5  // lines of a kind at once, and then one in kindTime
	kindTime  = 10 * time.Second
)

// Guard has the standard logger write where it wrote before, and as it did, but leave out what
// lines quote, and bound how many of a kind there are. Others in the daemon that log by it, such
// as net/http's servers of a panic, go on to do so. It is called before anything is asked.
var Guard = sync.OnceFunc(func() { guard(log.Default()) })

func guard(l *log.Logger) {
	before := log.New(l.Writer(), l.Prefix(), l.Flags()) // the time stands before what is left
	l.SetOutput(newWriter(before.Print))
	l.SetPrefix("")
	l.SetFlags(0)
}

// writer passes on the lines of a logger.
type writer struct {
	next func(...any) // prints a line

	mu    sync.Mutex
	kinds *simplelru.LRU[string, *kind]
}

// kind is lines that begin alike.
type kind struct {
	limit *rate.Limiter
	left  int // out, since the last that was passed on
}

var _ io.Writer = (*writer)(nil)

func newWriter(next func(...any)) *writer {
	kinds, _ := simplelru.NewLRU[string, *kind](maxKinds, nil) // fails for sizes below 1 only
	return &writer{next: next, kinds: kinds}
}

// Write implements io.Writer.
func (w *writer) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	if left, ok := w.take(text); ok {
		text = quoted.Cut(text)
		if left > 0 {
			text += " (" + strconv.Itoa(left) + " more like it)"
		}
		w.next(text)
	}
	return len(line), nil
}

// take reports whether a line is passed on, and how many like it were not since the last one.
func (w *writer) take(text string) (left int, ok bool) {
	text, _, _ = strings.Cut(text, `"`)
	text = strings.Clone(text[:min(len(text), maxKind)])
	w.mu.Lock()
	defer w.mu.Unlock()
	k, known := w.kinds.Get(text)
	if !known {
		k = &kind{limit: rate.NewLimiter(rate.Every(kindTime), kindBurst)}
		w.kinds.Add(text, k)
	}
	if !k.limit.Allow() {
		k.left++
		return 0, false
	}
	left, k.left = k.left, 0
	return left, true
}
