// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// Beyond the limit that image is released which was used longest ago, loudly. It is pinned
// again when it is used again.
func TestLimit(t *testing.T) {
	t.Parallel()
	metrics := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, "pin = true", `pin_limit = "2.5MiB"`), nodetest.MetricsAt(metrics))
	ref := func(i int) string { return nodetest.Named(fmt.Sprintf("app:%d", i)) }
	for i := range 3 {
		n.Push(fmt.Sprintf("app:%d", i), resolvertest.Image(int64(i), 1, 1<<20))
	}
	n.MustPull(ref(0))
	n.MustPull(ref(1))
	n.MustPull(ref(0))
	mark := n.Mark()
	n.MustPull(ref(2))
	eventually(n, ref(1), false)
	wantPinned(n, ref(0))
	wantPinned(n, ref(2))
	lines := n.LogLines(mark, `"level":"warning"`, "pin_limit", "2.5MiB", ref(1), "1.0")
	if len(lines) != 1 || strings.Contains(lines[0], ref(0)) {
		t.Errorf("the release is told by %d lines: %s", len(lines), lines)
	}
	sum := n.Status(ref(0)).GetImage().GetSize() + n.Status(ref(2)).GetImage().GetSize()
	wantMetrics(t, metrics, map[string]float64{"pullwarden_pinned_images": 2, "pullwarden_pinned_bytes": float64(sum)}, 1)

	n.Registry.Refuse()
	n.MustPull(ref(1)) // the fallback; the image is used again
	eventually(n, ref(1), true)
	eventually(n, ref(0), false)
	wantPinned(n, ref(2))

	// The order outlives a restart; a lower limit holds from there on.
	n.MustPull(ref(2))
	n.Restart(section("pin = true", `pin_limit = "1.5MiB"`))
	eventually(n, ref(1), false)
	wantPinned(n, ref(2))
	n.Restart(section("pin = true", `pin_limit = "100KiB"`))
	eventually(n, ref(2), false)
}

// wantMetrics compares gauges, and how many images were released for room.
func wantMetrics(t *testing.T, address string, gauges map[string]float64, released float64) {
	t.Helper()
	scraped := nodetest.Scrape(t, address)
	for name, want := range gauges {
		if got, ok := scraped.Value(name, nil); !ok || got != want {
			t.Errorf("%s is %v (%t), want %v", name, got, ok, want)
		}
	}
	if got, _ := scraped.Value("pullwarden_pins_released_total", map[string]string{"reason": "room"}); got != released {
		t.Errorf("%v were released for room, want %v", got, released)
	}
}

// An image that is larger than the limit takes no room of others, and is told of once.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, "pin = true", `pin_limit = "1MiB"`))
	small, large := nodetest.Named("small:1"), nodetest.Named("large:1")
	n.Push("small:1", nodetest.Image(1))
	n.Push("large:1", resolvertest.Image(2, 1, 2<<20))
	n.MustPull(small)
	mark := n.Mark()
	n.MustPull(large)
	eventually(n, large, false)
	for range 3 {
		n.MustPull(large)
	}
	wantReleased(n, large)
	wantPinned(n, small)
	if lines := n.LogLines(mark, `"level":"warning"`, "is not pinned", large); len(lines) != 1 {
		t.Errorf("it is told by %d lines: %s", len(lines), lines)
	}
}

// Tags of one image take its room once, and are released together.
func TestSharedImage(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, "pin = true", `pin_limit = "2.5MiB"`))
	image := resolvertest.Image(1, 1, 1<<20)
	for _, tag := range []string{"one:1", "two:1", "three:1"} {
		n.Push(tag, image)
		n.MustPull(nodetest.Named(tag))
	}
	wantPinned(n, nodetest.Named("one:1"))
	n.Push("other:1", resolvertest.Image(2, 1, 1<<20))
	n.Push("another:1", resolvertest.Image(3, 1, 1<<20))
	n.MustPull(nodetest.Named("other:1"))
	n.MustPull(nodetest.Named("another:1"))
	eventually(n, nodetest.Named("three:1"), false)
	wantPinned(n, nodetest.Named("other:1"))
	wantPinned(n, nodetest.Named("another:1"))
}
