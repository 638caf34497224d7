// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stdlog

import (
	"bytes"
	"fmt"
	"log"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/internal/kinds"
)

// guarded is a logger that is guarded, and what it writes.
func guarded(flags int) (*log.Logger, *bytes.Buffer) {
	var written bytes.Buffer
	l := log.New(&written, "", flags)
	guard(l)
	return l, &written
}

// What lines quote may be anybody's secret; everything else is written as it was.
func TestQuotedIsLeftOut(t *testing.T) {
	for line, want := range map[string]string{
		fmt.Sprintf("Unsolicited response starting with %q; err=%v", "a \"secret\"\nof\\", nil): `Unsolicited response starting with "…"; err=<nil>`,
		`header "authorization" = "Bearer secret"`:                                              `header "…" = "…"`,
		"one \"secret\nand another":                                                             "one \"…\"\nand another",
		"http: panic serving 127.0.0.1:1: invalid character '\"' of secret\na(\"x\")\n\tb":      "http: panic serving 127.0.0.1:1: invalid character '\"…\"\na(\"…\")\n\tb",
		`the end of a "secret`:                                                                  `the end of a "…"`,
		`a bad "\q secret" quote`:                                                               `a bad "…"`,
		"http: panic serving 127.0.0.1:1: boom\na\n\tb":                                         "http: panic serving 127.0.0.1:1: boom\na\n\tb",
		"": "",
	} {
		l, written := guarded(0)
		l.Print(line)
		if got := written.String(); got != want+"\n" {
			t.Errorf("%q is written as %q, want %q", line, got, want)
		}
	}
}

// A host has a line written as often as it likes: others' lines are written beside them.
func TestLinesOfAKindAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, written := guarded(0)
		for i := range 1000 {
			l.Printf("a host said %q", fmt.Sprint(i))
			if i%300 == 0 {
				l.Printf("panic %d", i)
			}
		}
		if lines := strings.Count(written.String(), "a host said"); lines != kindBurst || strings.Count(written.String(), "panic") != 4 {
			t.Errorf("got\n%s", written)
		}
		written.Reset()
		time.Sleep(kinds.Every)
		l.Print(`a host said ""`)
		l.Print(`a host said ""`)
		if got, want := written.String(), "a host said \"…\" (995 more like it)\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Lines have the time in front, once, as they had before.
func TestLinesHaveTheirTime(t *testing.T) {
	l, written := guarded(log.LstdFlags)
	l.Print("hello")
	stamp, text, _ := strings.Cut(strings.TrimSuffix(written.String(), "\n"), " hello")
	if _, err := time.Parse("2006/01/02 15:04:05", stamp); err != nil || text != "" {
		t.Errorf("got %q", written)
	}
}
