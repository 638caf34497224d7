// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// A yes that comes after more refusals of one holder than wait by themselves counts, though one waits in their place in the
// end: also where that is found out only later, once the records can be read again.
func TestYesAfterManyRefusalsOfOneHolder(t *testing.T) {
	ctx, s, records, disk := filled(t, 1)
	disk.full.Store(false)
	unread := damaged{t, disk.DB}
	unread.set(true)
	for i := range maxRefusals + 1 {
		refusals := []Refusal{{Host: fmt.Sprintf("mirror-%d.test", i)}, origin}
		if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, refusals...); !errors.Is(err, errUnlisted) {
			t.Fatal(err)
		}
	}
	wantWho(ctx, t, s, name, bob, Anonymous)
	v := verified(one)
	v.At = noon.Add(time.Hour)
	s.MarkVerified(ctx, one.Digest, v, by(alice), name)
	wantWho(ctx, t, s, name, alice, bob, Anonymous)
	disk.full.Store(true)
	unread.set(false)
	if err := s.sync(ctx, noMarks); !errors.Is(err, syscall.ENOSPC) { // another try
		t.Fatal(err)
	}
	s.mu.Lock()
	if n := len(s.pending.all()); n != 1 {
		t.Errorf("%d wait", n)
	}
	s.mu.Unlock()
	wantWho(ctx, t, s, name, alice, bob, Anonymous)
	disk.full.Store(false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantHas(t, labelsOf(ctx, t, records), alice, bob, Anonymous)
}

// What ends more than was refused, where too many wait, ends no yes that came after all of them.
func TestYesAfterRevocationsThatWiden(t *testing.T) {
	repository, of := tenants(0)
	k := key{namespace: "k8s.io", name: of, target: one.Digest}
	var b batch
	give := func(f Fingerprint) {
		mark := Verified{Digest: one.Digest, At: noon, By: tenant.Host}.change()
		mark[LabelAccess+string(f)] = Proof{noon, tenant.Host}.encode()
		b.add(k, bound(of, one, mark))
	}
	revoke := func(f Fingerprint) {
		b.revoke(revocation{place: placeOf("k8s.io", repository), holder: f, refusals: []Refusal{tenant}})
	}
	give("before")
	for i := range maxRevocations {
		revoke(Fingerprint(fmt.Sprint(i)))
	}
	give("between")
	give("refused")
	revoke("refused")
	give(alice)
	give("0")
	b.bound()
	if all := b.all(); len(all) != 1 || !all[0].everybody {
		t.Fatalf("%d wait", len(all))
	}
	state := Decode(of, one.Digest, b.over(k, nil))
	if len(state.Access) != 2 || state.Proofs(alice) == nil || state.Proofs("0") == nil {
		t.Errorf("proofs of %v", state.Access)
	}
}
