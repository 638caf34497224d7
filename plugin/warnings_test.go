// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// A text of a host is logged once in a period, and a registry that makes up texts has no
// more than its bound, which is told once.
func TestWarningsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w warnings
		want := func(host, text string, fresh, full bool) {
			t.Helper()
			if gotFresh, gotFull := w.take(host, text); gotFresh != fresh || gotFull != full {
				t.Errorf("%s, %q: %v, %v", host, text, gotFresh, gotFull)
			}
		}
		want("a.test", "old", true, false)
		want("a.test", "old", false, false)
		want("b.test", "old", true, false)
		for i := range maxWarnings - 1 {
			want("a.test", strconv.Itoa(i), true, false)
		}
		want("a.test", "one more", false, true)
		want("a.test", "two more", false, false)
		want("a.test", "old", false, false)
		want("b.test", "one more", true, false)
		time.Sleep(warningPeriod)
		want("a.test", "two more", true, false)
		want("a.test", "old", true, false)
	})
}
