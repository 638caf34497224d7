// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package tomlfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPositions(t *testing.T) {
	doc := "top = 1\n" +
		"[[rule]]\n" +
		"  images = [ 'a',\n    \"b\", [1], { c = 2 } ]\n" +
		"  on.unreachable = 'x'\n" +
		"[rule.on]\n" +
		"not_found = ''\n" +
		"[[rule]]\n" +
		"[[rule.sub]]\n" +
		"[[rule.sub]]\n" +
		"k = { l = { m = 1 } }\n" +
		"[host . \"https://mirror:5000\"]\n" +
		"'a b'.c = 1\n"
	want := map[string]Position{
		"top":                                {1, 1},
		"rule":                               {2, 3},
		"rule[1]":                            {2, 3},
		"rule[1].images":                     {3, 3},
		"rule[1].images[1]":                  {3, 14},
		"rule[1].images[2]":                  {4, 5},
		"rule[1].images[3][1]":               {4, 11},
		"rule[1].images[4]":                  {4, 15},
		"rule[1].images[4].c":                {4, 17},
		"rule[1].on":                         {5, 3},
		"rule[1].on.unreachable":             {5, 6},
		"rule[1].on.not_found":               {7, 1},
		"rule[2]":                            {8, 3},
		"rule[2].sub":                        {9, 8},
		"rule[2].sub[1]":                     {9, 8},
		"rule[2].sub[2]":                     {10, 8},
		"rule[2].sub[2].k":                   {11, 1},
		"rule[2].sub[2].k.l":                 {11, 7},
		"rule[2].sub[2].k.l.m":               {11, 13},
		"host":                               {12, 2},
		`host."https://mirror:5000"`:         {12, 9},
		`host."https://mirror:5000"."a b"`:   {13, 1},
		`host."https://mirror:5000"."a b".c`: {13, 7},
	}
	got, err := Positions([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p := Path("host", "https://mirror:5000", "a b", "c"); got[p] != want[p] {
		t.Errorf("Path spells %s", p)
	}
}

func TestPositionsOfBrokenDocument(t *testing.T) {
	// Spare capacity must not shift the position.
	doc := slices.Grow([]byte("a = 1\nb ? 2\n"), 100)
	got, err := Positions(doc)
	if want := "2:3: expected '=' after key"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if got["a"] != (Position{1, 1}) {
		t.Errorf("positions before the error are lost: %v", got)
	}
}

func TestPositionsAreBounded(t *testing.T) {
	got, err := Positions([]byte(strings.Repeat("a.", 5000) + "a = " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000)))
	if err != nil || len(got) != maxDepth {
		t.Errorf("%d positions, error %v", len(got), err)
	}
}

func TestTables(t *testing.T) {
	got := Tables([]byte("a.b = { c = 1 }\n[d . \"e.f\"]\ng = 1\n[[h.i]]\n[h.i.j]\n[d]\n[broken\n[k]\n"))
	if diff := cmp.Diff([][]string{{"d", "e.f"}, {"h", "i", "j"}, {"d"}}, got); diff != "" {
		t.Error(diff)
	}
}
