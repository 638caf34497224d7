// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/images"
)

// A pull that writes its proof after a refusal of the same secret was asked for keeps it: the registry has changed its mind since.
func TestYesOfAPullThatWaitsBehindARefusal(t *testing.T) {
	lost := 0
	const times = 40
	for range times {
		synctest.Test(t, func(t *testing.T) {
			ctx, s, records := newStore(t)
			create(ctx, t, records, one, nil)
			s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), name)
			flush(ctx, t, s)
			refused, pulled := make(chan error, 1), make(chan error, 1)
			if err := s.WriteProofs(ctx, func() error {
				go func() { refused <- s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin) }()
				synctest.Wait()
				go func() {
					pulled <- s.WriteProofs(ctx, func() error {
						all := labelsOf(ctx, t, records)
						all[LabelAccess+string(alice)] = Proof{noon.Add(time.Hour), origin.Host}.encode()
						_, err := records.Update(ctx, images.Image{Name: name, Labels: all}, "labels")
						return err
					})
				}()
				synctest.Wait()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{<-refused, <-pulled} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if fmt.Sprint(who(ctx, t, s, name)) != fmt.Sprint([]Fingerprint{alice, bob}) {
				lost++
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	if lost > 0 {
		t.Errorf("%d of %d lost the newer proof", lost, times)
	}
}
