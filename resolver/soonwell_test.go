// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"testing"
	"time"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The registry asks for 3 s of rest in the check, and a mirror that gives the tag swallows packets from then on. The pull waits for
// the mirror's connection as long as for that of any host that is not the last, and asks the registry, which is well by now.
func TestPullOfAHostWithoutConnectionsWhileTheRegistryRests(t *testing.T) {
	t.Parallel()
	mirror, registry := resolvertest.New(t), resolvertest.New(t)
	for _, r := range []*resolvertest.Registry{mirror, registry} {
		if _, err := r.Push(t.Context(), "team/app:v1", resolvertest.Image(1, 3, 1<<10)); err != nil {
			t.Fatal(err)
		}
	}
	recovered := registry.Status(resolvertest.All, 503, "Retry-After", "3")
	hostDirs := []string{hostsDir(t, chain(mirror.URL(), registry.URL()))}
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: hostDirs}, Query{Order: OriginThenMirrors})
	got, err := p.session.Resolve(t.Context(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	recovered()
	mirror.KillConnections()
	if err := mirror.Swallow(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = p.transfer(t.Context(), p.session.Source(got.Descriptor))
	if took := time.Since(began); err != nil || took > 10*time.Second {
		t.Errorf("the pull took %v: %v", took, err)
	}
}
