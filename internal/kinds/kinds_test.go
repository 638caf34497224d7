// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each line is passed on, or told of with the next one of its kind, or at the end.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, passed := New(3), 0
		for range 10 {
			if _, ok := k.Take("a"); ok {
				passed++
			}
		}
		if left, ok := k.Take("b"); passed != 3 || left != 0 || !ok || k.Left() != 7 {
			t.Errorf("%d lines of a passed, %d left, another kind's: %v", passed, k.Left(), ok)
		}
		time.Sleep(Every)
		if left, ok := k.Take("a"); left != 7 || !ok || k.Left() != 0 {
			t.Errorf("later: %d more, %v, %d left", left, ok, k.Left())
		}
	})
}

// Whoever makes up a kind for each line, however long its name, has no more lines than kinds have a burst.
func TestKindsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst, lines = 3, 10_000
		k, passed := New(burst), 0
		for i := range lines {
			if _, ok := k.Take(strconv.Itoa(i) + strings.Repeat("x", 10*MaxName)); ok {
				passed++
			}
		}
		if passed > Most+burst || k.Left() != lines-passed || k.known.Len() > Most {
			t.Errorf("%d lines passed, %d left, %d kinds known", passed, k.Left(), k.known.Len())
		}
		for _, name := range k.known.Keys() {
			if len(name) > MaxName {
				t.Errorf("%q is known", name)
			}
		}
	})
}

func TestTold(t *testing.T) {
	for left, want := range map[int]string{0: "line", 2: "line (2 more like it)"} {
		if got := Told("line", left); got != want {
			t.Errorf("%d: %q, want %q", left, got, want)
		}
	}
}
