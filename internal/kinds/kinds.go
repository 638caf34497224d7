// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds bounds how many lines of one kind a log has. What a line says may be somebody
// else's choice, and so may be how often it is said.
package kinds

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

const (
	// Most bounds the kinds that are told apart at a time.
	Most = 64
	// MaxName bounds the name of a kind, in bytes: of a longer one the beginning tells.
	MaxName = 64
	// Every is the time in which a kind has another line, once it had those that it may have at once.
	Every = 10 * time.Second
)

// Kinds are those of the lines of a log. It is safe for concurrent use.
type Kinds struct {
	burst int

	mu     sync.Mutex
	known  *simplelru.LRU[string, *kind]
	fresh  *rate.Limiter // of kinds that are not known: whoever makes them up has a line of each
	others *kind         // those beyond it
	left   int           // out, of which no line has told
}

// kind is lines that are alike.
type kind struct {
	limit *rate.Limiter
	left  int // out, since the last that was passed on
}

// New returns the kinds of a log, of which each has that many lines at once.
func New(burst int) *Kinds {
	known, _ := simplelru.NewLRU[string, *kind](Most, nil) // fails for sizes below 1 only
	k := &Kinds{burst: burst, known: known, fresh: rate.NewLimiter(rate.Every(Every), Most)}
	k.others = k.newKind()
	return k
}

func (k *Kinds) newKind() *kind { return &kind{limit: rate.NewLimiter(rate.Every(Every), k.burst)} }

// Take reports whether a line of that kind is passed on, and how many of it were not since the last
// one.
func (k *Kinds) Take(name string) (left int, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.kind(strings.Clone(name[:min(len(name), MaxName)]))
	if !of.limit.Allow() {
		of.left++
		k.left++
		return 0, false
	}
	left, of.left = of.left, 0
	k.left -= left
	return left, true
}

func (k *Kinds) kind(name string) *kind {
	of, known := k.known.Get(name)
	switch {
	case known:
		return of
	case !k.fresh.Allow():
		return k.others
	}
	of = k.newKind()
	k.known.Add(name, of)
	return of
}

// Left returns how many lines were not passed on of which Take has not told.
func (k *Kinds) Left() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.left
}

// Told is a line, and how many like it were not passed on before it.
func Told(line string, left int) string {
	if left == 0 {
		return line
	}
	return line + " (" + strconv.Itoa(left) + " more like it)"
}
