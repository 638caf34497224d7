// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"testing"
	"time"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The registry is down for good, as the mirror is there for. Packets to the mirror are lost for some seconds as the pull begins.
func TestPullFromAMirrorWhoseConnectionTakesSeconds(t *testing.T) {
	for _, lost := range []time.Duration{2500 * time.Millisecond, 6 * time.Second} {
		t.Run(lost.String(), func(t *testing.T) {
			t.Parallel()
			mirror, registry := resolvertest.New(t), resolvertest.New(t)
			for _, r := range []*resolvertest.Registry{mirror, registry} {
				if _, err := r.Push(t.Context(), "team/app:v1", resolvertest.Image(1, 3, 1<<10)); err != nil {
					t.Fatal(err)
				}
			}
			registry.Status(resolvertest.All, 503, "Retry-After", "60")
			hostDirs := []string{hostsDir(t, chain(mirror.URL(), registry.URL()))}
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: hostDirs}, Query{Order: OriginThenMirrors})
			got, err := p.session.Resolve(t.Context(), plenty)
			if err != nil {
				t.Fatal(err)
			}
			mirror.KillConnections()
			if err := mirror.Swallow(); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(lost, func() { _ = mirror.Restore() })
			began := time.Now()
			err = p.transfer(t.Context(), p.session.Source(got.Descriptor))
			if err != nil {
				t.Errorf("the pull failed after %v: %v", time.Since(began), err)
			}
		})
	}
}
