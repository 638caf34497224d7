// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stdlog bounds what goes through the logger of the standard library. net/http has no
// other one for its clients: it quotes what a host sends that nobody asked for, up to 4 KiB at a
// time, which may be the passwords and tokens that the host was sent.
package stdlog

import (
	"io"
	"log"
	"strings"
	"sync"

	"github.com/pullwarden/pullwarden/internal/kinds"
	"github.com/pullwarden/pullwarden/internal/quoted"
)

const kindBurst = 5 // lines of a kind at once

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
	next  func(...any) // prints a line
	kinds *kinds.Kinds // by how lines begin
}

var _ io.Writer = (*writer)(nil)

func newWriter(next func(...any)) *writer { return &writer{next: next, kinds: kinds.New(kindBurst)} }

// Write implements io.Writer.
func (w *writer) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	kind, _, _ := strings.Cut(text, `"`)
	if left, ok := w.kinds.Take(kind); ok {
		w.next(kinds.Told(quoted.Cut(text), left))
	}
	return len(line), nil
}
