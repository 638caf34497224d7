// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"errors"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func TestLimits(t *testing.T) {
	proxied := func(more ...string) map[string]string {
		exports := map[string]string{"address": "/run/lazy.sock"}
		for i := 0; i < len(more); i += 2 {
			exports[more[i]] = more[i+1]
		}
		return exports
	}
	for name, tc := range map[string]struct {
		local, annotations bool
		exports            map[string]string
		want               string
	}{
		"built in, told":           {true, true, map[string]string{"root": "/"}, ""},
		"proxied, not told":        {true, false, proxied(), ""},
		"proxied, told":            {true, true, proxied(), "disable_snapshot_annotations = false"},
		"proxied, export ignored":  {true, false, proxied(remoteAnnotations, "true"), ""},
		"transfer, not told":       {false, true, proxied(), ""},
		"transfer, told":           {false, false, proxied(remoteAnnotations, "true"), `[proxy_plugins.native.exports] enable_remote_snapshot_annotations = "true"`},
		"transfer, built in, told": {false, false, map[string]string{remoteAnnotations: "true"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.Exports = map[string]map[string]string{"native": tc.exports}
			s := settings()
			s.Local, s.SnapshotAnnotations = tc.local, tc.annotations
			s.Snapshotters = map[string]string{"handler": "native", "other": "second"}
			p := n.puller(s)
			var settings []string
			for _, l := range p.Limits() {
				settings = append(settings, l.Setting)
				if text := l.String(); !strings.Contains(text, tc.want) || !strings.Contains(text, "allowed_sources") {
					t.Error(text)
				}
			}
			if got := strings.Join(settings, "|"); got != tc.want {
				t.Errorf("limits %q, want %q", got, tc.want)
			}
			ref, _ := n.push("app:1", resolvertest.Image(1, 1, 100))
			for _, snapshotter := range []string{"", "native"} {
				err := p.Limit(snapshotter)
				var limit *LimitError
				if errors.As(err, &limit) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("limit of %q: %v", snapshotter, err)
				}
			}
			if err := p.Limit("second"); err != nil {
				t.Errorf("limit of another snapshotter: %v", err)
			}
			// Rules that allow all sources are kept with any snapshotter.
			if _, err := p.Pull(n.ctx, n.plan(ref), ""); err != nil {
				t.Error(err)
			}
		})
	}
}
