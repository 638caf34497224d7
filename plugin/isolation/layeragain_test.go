// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A tenant's image begins with the layers of another one of the same registry, which has a small layer twice, and has that
// layer a hundred times more above. Others of the registry have the upper one a tenth of the patience after the tenant has unpacked it.
func TestTurnOfALayerThatComesAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, of := digest.FromString("a unpacked"), layerOf("a").Digest
		upper := "sn://overlayfs/" + identity.ChainID([]digest.Digest{a, a}).String()
		var p pulls
		from := func(repository, caller string) *locker {
			scope := Source{Repository: repository, Caller: caller, Hosts: []string{"registry.test"}, RegistryOnly: false}.Scope()
			return newLocker(With(t.Context(), scope), &p.turns, time.Minute)
		}
		evil, good := from("registry.test/evil", "anonymous"), from("registry.test/app", "anonymous")
		var ids []digest.Digest
		var ls []ocispec.Descriptor
		for range 102 {
			ids, ls = append(ids, a), append(ls, layerOf("a"))
		}
		evil.layers.image(t, configOf(ids...), ls)
		good.layers.image(t, configOf(a, a), []ocispec.Descriptor{layerOf("a"), layerOf("a")})
		waits(t, evil, upper) // of layers that are unpacked at the same time none is committed before it has begun with all
		stop := time.Now().Add(time.Hour)
		go func() {
			for time.Now().Before(stop) {
				ended := evil.progress.unpacks(of)
				time.Sleep(time.Second)
				ended()
			}
		}()
		time.Sleep(3 * time.Second) // both have been unpacked
		got := waits(t, good, upper)
		if got > 6*time.Second+lookInterval {
			t.Errorf("waited %v, want a tenth of the patience", got)
		}
		good.Unlock(upper)
		time.Sleep(2 * time.Hour)
		evil.Unlock(upper)
	})
}
