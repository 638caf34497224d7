// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// setting is one of containerd's own that may help with big images.
type setting struct {
	what    string
	lines   string // of the transfer service's section
	env     []string
	program string // that must be there; "" for none
}

// noPrograms keeps containerd from a faster program for gzip that the machine has.
var noPrograms = []string{"CONTAINERD_DISABLE_IGZIP=1", "CONTAINERD_DISABLE_PIGZ=1"}

var bigSettings = []setting{
	{what: "as they are", env: noPrograms},
	{what: "max_concurrent_unpacks = 2", lines: "max_concurrent_unpacks = 2", env: noPrograms},
	{what: "max_concurrent_unpacks = 4", lines: "max_concurrent_unpacks = 4", env: noPrograms},
	{what: "concurrent_layer_fetch_buffer = 8388608", lines: "concurrent_layer_fetch_buffer = 8388608", env: noPrograms},
	{what: "max_concurrent_downloads = 10", lines: "max_concurrent_downloads = 10", env: noPrograms},
	{what: "unpigz on the PATH", env: noPrograms[:1], program: "unpigz"},
	{what: "igzip on the PATH", env: noPrograms[1:], program: "igzip"},
	{what: "igzip, max_concurrent_unpacks = 4", lines: "max_concurrent_unpacks = 4", env: noPrograms[1:], program: "igzip"},
}

// settings pulls a big image with containerd's settings that may help, each in turn.
func settings(ctx context.Context, b *bench) (lines []line, err error) {
	const rounds = 3
	for _, s := range bigSettings {
		if s.program == "" {
			continue
		}
		if _, err := exec.LookPath(s.program); err != nil {
			return nil, errors.Join(err, errors.New("apt-get install isal pigz"))
		}
	}
	for _, c := range []compression{gzipped, zstded} {
		all := make([]bigPulls, len(bigSettings))
		err = b.withBig(ctx, c, func(p *pair, image pushed) error {
			for range rounds {
				for i, s := range bigSettings {
					if s.program != "" && c.name != gzipped.name {
						continue
					}
					err := p.both(func(n *benchNode) error { return s.pull(ctx, p, n, image, &all[i]) })
					if err != nil {
						return fmt.Errorf("%s, %s: %w", c.name, s.what, err)
					}
				}
			}
			return nil
		})
		if err != nil {
			return lines, err
		}
		for i, s := range bigSettings {
			if pulls := &all[i]; len(pulls.all[ours]) > 0 {
				l := compare(fmt.Sprintf("big pull, %s, settings: %s", c.name, s.what), "", pulls.all)
				l.stock += fmt.Sprintf(", %.0f MiB", mebi(pulls.peak(stock)))
				l.ours += fmt.Sprintf(", %.0f MiB", mebi(pulls.peak(ours)))
				lines = append(lines, l)
			}
		}
	}
	return lines, nil
}

// pull measures a pull on a daemon that has just started with the setting.
func (s setting) pull(ctx context.Context, p *pair, n *benchNode, image pushed, pulls *bigPulls) error {
	n.Options.Env = s.env
	n.Options.Tables = []string{"[plugins.'io.containerd.transfer.v1.local']\n  " + s.lines}
	if err := n.Restart(ctx); err != nil {
		return err
	}
	return pulls.add(ctx, p, n, image)
}
