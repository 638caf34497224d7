// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	redactor := &redact.Redactor{}
	redactor.AddCredentials("user", "sesame-open")
	long := strings.Repeat("a", maxWarnings-len(`299 - ""`))
	for name, test := range map[string]struct{ values, want []string }{
		"of the specification":  {[]string{`299 - "Your auth token will expire in 30 seconds."`}, []string{"Your auth token will expire in 30 seconds."}},
		"several headers":       {[]string{`299 - "one"`, `299 - "two"`}, []string{"one", "two"}},
		"several in a header":   {[]string{`299 - "one", 299 - "two"`}, []string{"one", "two"}},
		"escapes":               {[]string{`299 - "say \"no\" \\ maybe, 299 - "`}, []string{`say "no" \ maybe, 299 -`}},
		"another code":          {[]string{`199 - "one"`, `110 - "stale"`}, nil},
		"an agent":              {[]string{`299 cache.test "one"`}, nil},
		"no quotes":             {[]string{`299 - one`}, nil},
		"no end":                {[]string{`299 - "one`, `299 - "one\`, `299 - "one\"`}, nil},
		"empty":                 {[]string{"", `299 - ""`, `299 - " "`}, nil},
		"lines":                 {[]string{"299 - \"one\r\n\tlevel=error\x1b[31m\""}, []string{"one level=error [31m"}},
		"secrets":               {[]string{`299 - "Sesame-Open of https://user:pw@a.test/x?token=1"`}, []string{"*** of https://a.test/x"}},
		"all that there may be": {[]string{`299 - "` + long + `"`, `299 - "two"`}, []string{long[:redact.MaxText] + "…"}},
		"too much":              {[]string{`299 - "one"`, `299 - "` + long + `"`, `299 - "two"`}, []string{"one"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := readWarnings(http.Header{"Warning": test.values}, redactor); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A host speaks for itself: what a token server says, or the target of a redirect, is
// nobody's quota and nobody's warning.
func TestOthersSayNothingOfAHost(t *testing.T) {
	t.Parallel()
	c := config(answering(http.StatusOK, "RateLimit-Limit", "10", "RateLimit-Remaining", "1", "Warning", `299 - "one"`))
	var seen []Observation
	c.Observe = func(o Observation) { seen = append(seen, o) }
	rt := c.Registry(nil)
	for _, url := range []string{address + "/v2/x", "http://cdn.test/x", "https://registry.test/v2/x"} {
		req, err := http.NewRequestWithContext(purpose.With(t.Context(), purpose.Purpose{}), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if len(seen) != 3 || seen[0].Quota == nil || *seen[0].Quota != (Quota{10, 1, 0}) || !slices.Equal(seen[0].Warnings, []string{"one"}) {
		t.Fatalf("observed %+v", seen)
	}
	for _, o := range seen[1:] {
		if o.Quota != nil || o.Warnings != nil {
			t.Errorf("observed %+v", o)
		}
	}
}

// A host that warns in each of its answers has those read that a log has room for: the others of
// the same session cost no time, however many layers an image has.
func TestWarningsOfASession(t *testing.T) {
	t.Parallel()
	c := config(answering(http.StatusOK, "Warning", `299 - "one"`))
	c.Warned = new(atomic.Int32)
	read := 0
	c.Observe = func(o Observation) { read += len(o.Warnings) }
	for range 2 * maxWarned {
		req, err := http.NewRequestWithContext(purpose.With(t.Context(), purpose.Purpose{}), http.MethodGet, address+"/v2/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Registry(nil).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if read != maxWarned {
		t.Errorf("%d warnings are read", read)
	}
}

// Warnings fit into one line of a log, whatever a registry sends.
func FuzzWarnings(f *testing.F) {
	f.Add(`299 - "one", 299 - "two \" three"`)
	f.Add("299 - \"\x00\n\"")
	f.Fuzz(func(t *testing.T, value string) {
		for _, text := range readWarnings(http.Header{"Warning": {value}}, &redact.Redactor{}) {
			if text == "" || len(text) > redact.MaxText+len("…") || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q", text)
			}
		}
	})
}
