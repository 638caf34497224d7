// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/log"
)

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// warnings returns the lines of warnings since the last call.
func (l *logged) warnings() (lines []string) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, "level=warning") {
			lines = append(lines, line)
		}
	}
	l.text.Reset()
	return lines
}

// Each version of the rules is warned of once, in the background, and not without an
// end.
func TestAdviceIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &logged{}
		was := log.L.Logger.Out
		log.L.Logger.SetOutput(l)
		defer log.L.Logger.SetOutput(was)
		dir := t.TempDir()
		writeIn(t, dir, "10.toml", always)
		writeIn(t, dir, "20.toml", never)
		d, err := Open(Options{Path: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if got := l.warnings(); len(got) != 1 || !strings.Contains(got[0], "rule 20.toml#1: the rule never decides") || !strings.Contains(got[0], dir) {
			t.Errorf("got %q", got)
		}
		for range 3 {
			time.Sleep(pollInterval)
			if got := l.warnings(); len(got) > 0 {
				t.Errorf("warned again: %q", got)
			}
		}
		writeIn(t, dir, "20.toml", "")
		rulesOf(t, d)
		if got := l.warnings(); len(got) > 0 {
			t.Errorf("got %q", got)
		}
		writeIn(t, dir, "20.toml", strings.Repeat(never, 100))
		rulesOf(t, d)
		if got := l.warnings(); len(got) != maxAdvice+1 || !strings.Contains(got[maxAdvice], "84 more") {
			t.Errorf("got %d: %q", len(got), got)
		}
	})
}
