// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"", []string{""}},
		{"one two", []string{"one two"}},
		{"one  two\nthree", []string{"one two", "three"}},
		{"12345678", []string{"12345678"}},
		{"123456789", []string{"12345678", "9"}},
		{"a 123456789 b", []string{"a", "12345678", "9 b"}},
		{"→→→→ →→→ →", []string{"→→→→ →→→", "→"}},
	} {
		if got := wrap(tt.in, 8); !slices.Equal(got, tt.want) {
			t.Errorf("wrap(%q) is %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := &printer{w: &b}
	p.lines(2, "one\n\n"+strings.Repeat("→", width)+"\n")
	if want := "  one\n\n  " + strings.Repeat("→", width-2) + "\n  →→\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	for colours, want := range map[bool]string{false: "  a b\n  c\n", true: "  \x1b[31ma b\x1b[0m\n  \x1b[31mc\x1b[0m\n"} {
		var b bytes.Buffer
		p := &printer{w: &b, colours: colours}
		for _, line := range []string{"a b", "c"} {
			p.text(2, red, line)
		}
		if b.String() != want {
			t.Errorf("with colours %v: %q, want %q", colours, b.String(), want)
		}
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	request := func(method string, part resolvertest.Part, status int) resolvertest.Request {
		return resolvertest.Request{Method: method, Part: part, Path: "/v2/", Status: status}
	}
	for want, c := range map[string]cost{
		"r: no request, no connection":                          {name: "r"},
		"r: 1 request (GET /v2/), 1 new connection":             {"r", []resolvertest.Request{request("GET", resolvertest.Other, 200)}, 1},
		"r: 1 request (HEAD manifest → 404), no new connection": {"r", []resolvertest.Request{request("HEAD", resolvertest.Manifests, 404)}, 0},
		"r: 3 requests (2 × GET blob, GET token), 2 new connections": {"r", []resolvertest.Request{
			request("GET", resolvertest.Blobs, 200), request("GET", resolvertest.Tokens, 200), request("GET", resolvertest.Blobs, 206),
		}, 2},
	} {
		if got := c.String(); got != want {
			t.Errorf("cost is %q, want %q", got, want)
		}
	}
}

func TestParseListing(t *testing.T) {
	t.Parallel()
	const header = "REF  SIZE    LABELS    \n"
	got, err := parseListing(header + "a:b  1.0 KiB a=b,c=d,e \n" + "c    2.0 KiB -         \n")
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if want := [][2]string{{"REF", "a:b"}, {"SIZE", "1.0 KiB"}}; !slices.Equal(got[0].columns, want) {
		t.Errorf("columns are %q, want %q", got[0].columns, want)
	}
	if want := []string{"a=b", "c=d,e"}; !slices.Equal(got[0].labels, want) {
		t.Errorf("labels are %q, want %q", got[0].labels, want)
	}
	for _, bad := range []string{"", "REF SIZE\na b\n", header, header + "a\n"} {
		if got, err := parseListing(bad); err == nil {
			t.Errorf("parseListing(%q) gives %v", bad, got)
		}
	}
}
