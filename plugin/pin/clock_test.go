// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/store"
)

// An image that was last used while the clock was ahead is not the one that was used last, for as long as it takes the clock to come
// there: what pods have used since goes before it.
func TestUseWhileTheClockWasAhead(t *testing.T) {
	t.Parallel()
	f := newFake()
	inBubble(t, f, 10, func(k *Keeper, _ *[]Reason, settle func()) {
		f.add("r.test/ahead:1", 5, store.Pin{Own: true})
		f.mu.Lock()
		r := f.records["r.test/ahead:1"]
		r.PulledAt = time.Now().AddDate(1, 0, 0) // the clock was ahead by a year then
		f.records["r.test/ahead:1"] = r
		f.mu.Unlock()
		f.add("r.test/a:1", 5, store.Pin{})
		f.add("r.test/b:1", 5, store.Pin{})
		for range 3 {
			for _, name := range []string{"r.test/a:1", "r.test/b:1"} {
				k.Keep(t.Context(), name)
				time.Sleep(30 * 24 * time.Hour)
			}
		}
		settle()
		want(t, "pinned after half a year of uses of a and b", f.pinned(), "r.test/a:1 r.test/b:1")
	})
}

// A pass that comes between a pull and the use that it is for takes the image for the one that was used last.
func TestPassBetweenAPullAndItsUse(t *testing.T) {
	t.Parallel()
	f := newFake()
	inBubble(t, f, 10, func(k *Keeper, released *[]Reason, settle func()) {
		settle()
		for _, name := range []string{"r.test/a:1", "r.test/b:1", "r.test/c:1"} { // within one second
			time.Sleep(time.Second / 5)
			f.add(name, 5, store.Pin{Own: true})
			if name != "r.test/c:1" {
				k.Keep(t.Context(), name)
			}
		}
		settle()
		want(t, "pinned", f.pinned(), "r.test/b:1 r.test/c:1")
		k.Keep(t.Context(), "r.test/c:1")
		settle()
		want(t, "pinned after the use", f.pinned(), "r.test/b:1 r.test/c:1")
		want(t, "released", *released, []Reason{ForRoom})
	})
}

// Neither what was used while a pull was written, nor an earlier use of its own tag in the same second, has it taken for one that was
// used longest ago: it is used as it comes.
func TestPulledIsUsed(t *testing.T) {
	t.Parallel()
	for what, before := range map[string]time.Duration{"a slow write": 5 * time.Second, "in one second": 100 * time.Millisecond} {
		f := newFake()
		inBubble(t, f, 10, func(k *Keeper, released *[]Reason, settle func()) {
			settle()
			began := time.Now()
			f.add("r.test/c:1", 5, store.Pin{Own: true, Used: began.Truncate(time.Second)})
			k.Keep(t.Context(), "r.test/c:1")
			time.Sleep(before)
			for _, name := range []string{"r.test/a:1", "r.test/b:1"} {
				f.add(name, 5, store.Pin{Own: true})
				k.Keep(t.Context(), name)
				time.Sleep(time.Millisecond)
			}
			f.add("r.test/c:1", 5, store.Pin{Own: true, Used: began.Truncate(time.Second)})
			k.Pulled("r.test/c:1")
			settle()
			want(t, what+": pinned", f.pinned(), "r.test/b:1 r.test/c:1")
		})
	}
}
