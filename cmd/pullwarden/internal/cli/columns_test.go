// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/plugin/status"
)

// The table fits 80 columns, and the ends of references and the beginnings of hosts
// are what is left of them.
func TestTableFits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	images := []status.Image{
		{
			Reference: "registry.example.com/payments/very/long/path/ledger:stable", Digest: "sha256:0123456789abcdef",
			PullSource: "mirror.eu-central-1.example.com:5000/payments/ledger:stable", VerifiedAt: now.Add(-50 * time.Hour),
			VerifiedBy: "registry.example.com", StaleSince: now.Add(-3 * time.Hour), StaleReason: "rate_limited", Proofs: 12, Pinned: true,
		},
		{Reference: "docker.io/library/nginx@sha256:fedcba9876543210", Digest: "sha256:fedcba9876543210"},
		{Reference: "docker.io/library/nginx:1", Digest: "sha256:fedcba9876543210"},
	}
	var b bytes.Buffer
	writeImages(&b, images, now, 80)
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, word := range []string{"ledger:stable ", " mirror.", "  2d  ", "\n  stale for 3h: rate_limited\n", "nginx:1 ", "nginx@fedcba98 "} {
		if !strings.Contains(b.String(), word) {
			t.Errorf("%q is not in\n%s", word, &b)
		}
	}
	b.Reset()
	writeImages(&b, images[2:], now, 80)
	want := "IMAGE                      SOURCE  DIGEST    CHECKED  BY  PROOFS  PINNED\n" +
		"docker.io/library/nginx:1  -       fedcba98  -        -   0       -\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// A screen that is looked at again and again keeps its beginning, where health stands.
func TestCutLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		rows int
		want string
	}{
		{"a\nb\nc\n", 3, "a\nb\nc\n"},
		{"a\nb\nc\nd\n", 3, "a\nb\n… and 2 more lines\n"},
		{"a\n\nc\nd\n", 3, "a\n\n… and 2 more lines\n"},
		{"a\n1234567890123\nc\n", 4, "a\n1234567890123\nc\n"},
		{"a\n1234567890123\nc\n", 3, "a\n… and 2 more lines\n"},
		{"a\nb\n1234567890123\n", 3, "a\nb\n… and 1 more line\n"},
	} {
		if got := cutLines(tt.text, 10, tt.rows); got != tt.want {
			t.Errorf("%q in %d rows: %q, want %q", tt.text, tt.rows, got, tt.want)
		}
	}
}

// A table without a row says whether that is for the filters.
func TestNoImages(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]statusFlags{
		"\nno images\n":                   {},
		"\nno images match the filters\n": {filter: status.Filter{Stale: true}},
	} {
		var b bytes.Buffer
		if err := (&statusScreen{w: &b, flags: &f}).table(status.Report{}, time.Time{}); err != nil || !strings.HasSuffix(b.String(), want) {
			t.Errorf("%q, %v, want %q", b.String(), err, want)
		}
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 90 * time.Second: "90s", 5 * time.Minute: "5m", 30 * time.Hour: "30h", 72 * time.Hour: "3d",
	} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	if got := ago(time.Time{}, now); got != "-" {
		t.Errorf("never: %s", got)
	}
}
