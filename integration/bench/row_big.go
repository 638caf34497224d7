// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
)

// bigLayers are those of a big image, of 64 MiB each on the disk.
const bigLayers = 10

// big pulls a big image, with containerd's settings as they are.
func big(ctx context.Context, b *bench) (lines []line, err error) {
	for _, c := range []compression{gzipped, zstded} {
		pulls, err := c.pulls(ctx, b)
		if err != nil {
			return lines, err
		}
		a, z := pulls.peak(stock), pulls.peak(ours)
		lines = append(lines,
			compare(fmt.Sprintf("cold pull, %d layers of 64 MiB, %s of half of that", bigLayers, c.name), "≥ 1×", pulls.all),
			line{
				what: "… peak memory of the daemon (RSS without its program)", stock: fmt.Sprintf("%.0f MiB", mebi(a)),
				ours: fmt.Sprintf("%.0f MiB (%+.0f)", mebi(z), mebi(z-a)), ratio: ratio(a, z), reach: "no more",
			})
	}
	return lines, nil
}

// bigPulls are pulls of a big image, and the peaks of memory in them, in KiB: of resident
// memory without files, which are the pages of the program, and the kernel's to take.
type bigPulls struct {
	all   [2]costs
	peaks [2][]int
}

// pulls measures pulls of a big image by both nodes in turn.
func (c compression) pulls(ctx context.Context, b *bench) (bigPulls, error) {
	const rounds = 5
	var pulls bigPulls
	err := b.withBig(ctx, c, func(p *pair, image pushed) error {
		for range rounds {
			if err := p.both(func(n *benchNode) error { return pulls.add(ctx, p, n, image) }); err != nil {
				return err
			}
		}
		return nil
	})
	return pulls, err
}

// withBig runs f on a new pair, whose registry has a big image.
func (b *bench) withBig(ctx context.Context, c compression, f func(p *pair, image pushed) error) error {
	made, err := c.bigImage(bigLayers)
	if err != nil {
		return err
	}
	return b.withPair(ctx, options{}, func(p *pair) error {
		image, err := p.pushImage(ctx, "big:1", made)
		if err != nil {
			return err
		}
		return f(p, image)
	})
}

// add measures a cold pull.
func (b *bigPulls) add(ctx context.Context, p *pair, n *benchNode, image pushed) error {
	rest()
	proc, err := n.proc(ctx)
	if err == nil {
		err = os.WriteFile(proc+"/clear_refs", []byte("5"), 0) // the peak is that of now
	}
	if err != nil {
		return err
	}
	c, err := p.coldPull(ctx, n, image, bigLayers)
	if err != nil {
		return err
	}
	peak, err := kibiIn(proc+"/status", "VmHWM")
	if err != nil {
		return err
	}
	files, err := kibiIn(proc+"/status", "RssFile")
	b.all[n.side], b.peaks[n.side] = append(b.all[n.side], c), append(b.peaks[n.side], peak-files)
	return err
}

// peak is the median of a side.
func (b *bigPulls) peak(s side) int { return medianOf(b.peaks[s], func(n int) int { return n }) }
