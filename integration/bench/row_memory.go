// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// memory reads how much the daemons have taken after many checks of many
// images.
func memory(ctx context.Context, b *bench) (lines []line, err error) {
	const repeats = 3
	var all [2][]usage
	for range repeats {
		err = b.withPair(ctx, options{near: true}, func(p *pair) error { return p.checkMany(ctx, &all) })
		if err != nil {
			return nil, err
		}
	}
	for _, kind := range []struct {
		what, reach string
		of          func(usage) int
	}{
		{"memory (PSS) after 1,000 checks of 200 images", "≤ 10 MiB more", func(u usage) int { return u.pss }},
		{"… RSS", "", func(u usage) int { return u.rss }},
	} {
		a, b := medianOf(all[stock], kind.of), medianOf(all[ours], kind.of)
		lines = append(lines, line{
			what: kind.what, stock: fmt.Sprintf("%.1f MiB", mebi(a)), ours: fmt.Sprintf("%.1f MiB (%+.1f)", mebi(b), mebi(b-a)),
			ratio: ratio(a, b), reach: kind.reach,
		})
	}
	return lines, nil
}

// checkMany pulls 200 images and asks 1,000 times for them, on both nodes.
func (p *pair) checkMany(ctx context.Context, all *[2][]usage) error {
	const images, rounds, atATime = 200, 5, 4
	var refs []string
	for i := range images {
		ref, err := p.push(ctx, fmt.Sprintf("app-%d:1", i), resolvertest.Image(int64(i), 1, 4096))
		if err != nil {
			return err
		}
		refs = append(refs, ref)
	}
	return p.both(func(n *benchNode) error {
		for range 1 + rounds {
			if err := n.pulls(ctx, atATime, refs...); err != nil {
				return err
			}
		}
		u, err := n.usage(ctx)
		all[n.side] = append(all[n.side], u)
		return err
	})
}

// usage is the memory of a process, in KiB.
type usage struct{ pss, rss int }

func (n *benchNode) usage(ctx context.Context) (u usage, err error) {
	proc, err := n.proc(ctx)
	if err != nil {
		return usage{}, err
	}
	for key, to := range map[string]*int{"Pss": &u.pss, "Rss": &u.rss} {
		if *to, err = kibiIn(proc+"/smaps_rollup", key); err != nil {
			return usage{}, err
		}
	}
	return u, nil
}

// proc returns the kernel's directory of the daemon.
func (n *benchNode) proc(ctx context.Context) (string, error) {
	server, err := n.Client.IntrospectionService().Server(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: ask for the process: %w", n.side, err)
	}
	return fmt.Sprintf("/proc/%d", server.GetPid()), nil
}

// kibiIn returns the value of a key, in KiB, in one of the kernel's files.
func kibiIn(path, key string) (int, error) {
	value, err := valueIn(path, key)
	if err != nil {
		return 0, err
	}
	kibi, err := strconv.Atoi(strings.TrimSuffix(value, " kB"))
	if err != nil {
		return 0, fmt.Errorf("%s in %s: %w", key, path, err)
	}
	return kibi, nil
}

func mebi(kibi int) float64 { return float64(kibi) / 1024 }
