// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	bolt "go.etcd.io/bbolt"
)

// tenant refuses whomever a tenant wants: it is the tenant's own registry.
var tenant = Refusal{Host: "tenant.test", Origin: true}

func tenants(i int) (repository, name string) {
	repository = fmt.Sprintf("tenant.test/r%d", i)
	return repository, repository + ":1"
}

// filled is a store with alice's and bob's proofs, and bob's of n repositories of a tenant, on a disk that is full since then.
func filled(t *testing.T, n int) (context.Context, *Store, images.Store, *fullDisk) {
	t.Helper()
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob, Anonymous), name)
	flush(ctx, t, s)
	proof := Verified{Digest: one.Digest, At: noon, By: tenant.Host}.change()
	proof[LabelAccess+string(bob)] = Proof{noon, tenant.Host}.encode()
	if err := s.db.Update(func(tx *bolt.Tx) error {
		for i := range n {
			_, of := tenants(i)
			if _, err := records.Create(inTransaction(tx, "k8s.io"), images.Image{Name: of, Target: one, Labels: bound(of, one, proof)}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	disk := &fullDisk{DB: s.db}
	s.db = disk
	disk.full.Store(true)
	return ctx, s, records, disk
}

// Whom a registry lets in and then refuses, as often as its owner likes, while nothing can be written: there is nothing to take back from
// the disk, so nothing waits for it, and nobody else's proof ends.
func TestRefusalsOfProofsThatNeverWereOnDisk(t *testing.T) {
	ctx, s, records, disk := filled(t, 1)
	repository, of := tenants(0)
	v := Verified{At: noon, By: tenant.Host, Origin: true}
	for i := range 3 {
		f := Fingerprint(fmt.Sprintf("%032d", i))
		s.MarkVerified(ctx, one.Digest, v, by(f), of)
		wantWho(ctx, t, s, of, bob, f)
		if err := s.Revoke(ctx, repository, []Fingerprint{f, "a namespace"}, tenant); err != nil {
			t.Fatal(err)
		}
		wantWho(ctx, t, s, of, bob)
		s.mu.Lock()
		if len(s.pending.revoking()) > 0 || len(s.asked) > 0 {
			t.Error("a revocation waits")
		}
		s.mu.Unlock()
	}
	// What the mark replaces on disk must not be there again.
	s.MarkVerified(ctx, one.Digest, v, by(bob), of)
	if err := s.Revoke(ctx, repository, []Fingerprint{bob, "a namespace"}, tenant); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
	wantWho(ctx, t, s, of)
	s.mu.Lock()
	if n := len(s.pending.all()); n != 1 {
		t.Errorf("%d revocations wait, one of which has anything to take away", n)
	}
	s.mu.Unlock()
	disk.full.Store(false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantHas(t, labelsOf(ctx, t, records), bob)
	img, err := records.Get(ctx, of)
	if err != nil || len(Decode(of, one.Digest, img.Labels).Access) > 0 {
		t.Errorf("on disk are %v, %v", img.Labels, err)
	}
}

// wait has revocations wait as if each had been tried: alice's of the image of all, and bob's of n repositories.
func wait(ctx context.Context, t *testing.T, s *Store, n int, repository func(i int) string, want error) {
	t.Helper()
	s.mu.Lock()
	for i := range n {
		s.pending.revoke(revocation{place: placeOf("k8s.io", repository(i)), holder: bob, refusals: []Refusal{tenant}})
	}
	s.mu.Unlock()
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// However many revocations of proofs on disk cannot be written, of as many repositories or registries, they end
// nothing else: one who has a domain has as many registries.
func TestManyUnwrittenRevocations(t *testing.T) {
	const n = maxRevocations + 1
	for what, repository := range map[string]func(i int) string{
		"repositories": func(i int) string { of, _ := tenants(i); return of },
		"names":        func(i int) string { return fmt.Sprintf("r%d.tenant.test/r", i) },
		"ports":        func(i int) string { return fmt.Sprintf("tenant.test:%d/r", 5000+i) },
	} {
		t.Run(what, func(t *testing.T) {
			ctx, s, records, disk := filled(t, n+1)
			wait(ctx, t, s, n, repository, syscall.ENOSPC)
			_, last := tenants(n) // which has not been refused
			wantWho(ctx, t, s, last, bob)
			wantWho(ctx, t, s, name, bob, Anonymous)
			if _, first := tenants(0); what == "repositories" {
				wantWho(ctx, t, s, first)
			}
			disk.full.Store(false)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if state := Decode(name, one.Digest, labelsOf(ctx, t, records)); len(state.Access) != 2 || state.Proofs(alice) != nil {
				t.Errorf("on disk are %v", state.Access)
			}
		})
	}
}

// Too many revocations of a registry, while the records cannot be read, end all proofs of its images, and of no other's.
func TestTooManyUnwrittenRevocationsOfOneRegistry(t *testing.T) {
	ctx, s, records, disk := filled(t, maxRevocations+1)
	disk.full.Store(false)
	unread := damaged{t, disk.DB}
	unread.set(true)
	wait(ctx, t, s, maxRevocations, func(i int) string { of, _ := tenants(i); return of }, errUnlisted)
	_, last := tenants(maxRevocations) // which has not been refused
	wantWho(ctx, t, s, last)
	wantWho(ctx, t, s, name, bob, Anonymous)
	unread.set(false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if state := Decode(name, one.Digest, labelsOf(ctx, t, records)); len(state.Access) != 2 || state.Proofs(alice) != nil {
		t.Errorf("on disk are %v", state.Access)
	}
}

// The proofs of everybody end where most were refused: first of one repository, then of its registry, and of a namespace only
// where each registry has refused once.
func TestRevocationsWiden(t *testing.T) {
	lay := func(b *batch, repository string, holder int) {
		b.revoke(revocation{place: placeOf("k8s.io", repository), holder: Fingerprint(fmt.Sprint(holder)), refusals: []Refusal{origin}})
	}
	const others = 24
	for what, tc := range map[string]struct {
		of   func(i int) (repository string, holder int)
		want string
	}{
		"secrets":      {func(i int) (string, int) { return "tenant.test/r", i }, "tenant.test/r"},
		"repositories": {func(i int) (string, int) { return fmt.Sprintf("tenant.test/r%d", i), 0 }, "tenant.test"},
	} {
		var b batch
		for i := range maxRevocations {
			repository, holder := "registry.test/app", i
			if i >= others {
				repository, holder = tc.of(i)
			}
			lay(&b, repository, holder)
		}
		if b.bound(); len(b.all()) != maxRevocations {
			t.Errorf("%s: %d are not too many, and are %d now", what, maxRevocations, len(b.all()))
		}
		repository, holder := tc.of(maxRevocations)
		lay(&b, repository, holder)
		b.bound()
		var wide []string
		for _, r := range b.all() {
			if r.everybody {
				wide = append(wide, r.within)
			}
		}
		if !slices.Equal(wide, []string{tc.want}) {
			t.Errorf("%s: everybody's proofs end of %v", what, wide)
		}
		if n := len(b[0].revocations[placeOf("k8s.io", "registry.test/app")]); n != others {
			t.Errorf("%s: %d of another registry are as they were", what, n)
		}
	}
	var b batch
	for i := range maxRevocations + 1 {
		b.revoke(revocation{place: place{namespace: fmt.Sprint(i)}, everybody: true})
	}
	if b.bound(); len(b.all()) != maxRevocations+1 {
		t.Errorf("of as many namespaces %d are left", len(b.all()))
	}
}

// The bound holds up nobody, however many came while nothing could be written.
func TestBoundOfVeryMany(t *testing.T) {
	const n = 16 * maxRevocations
	for what, repository := range map[string]func(i int) string{
		"holders":      func(int) string { return "tenant.test/r" },
		"repositories": func(i int) string { of, _ := tenants(i / 2); return of },
		"registries":   func(i int) string { return fmt.Sprintf("r%d.tenant.test/r%d", i/4, i/2) },
	} {
		all := revocations{}
		for i := range n {
			all.put(revocation{place: placeOf("k8s.io", repository(i)), holder: Fingerprint(fmt.Sprint(i)), refusals: []Refusal{tenant}})
		}
		b := batch{{all, marks{}}}
		begun := time.Now()
		b.bound()
		if took, left := time.Since(begun), len(b.all()); took > 5*time.Second || left > maxRevocations {
			t.Errorf("%d of as many %s: %d are left after %v", n, what, left, took)
		}
	}
}

// The bound leaves what readers have of the batch as it is: they read it meanwhile, without a lock.
func TestBoundLeavesWhatReadersHave(t *testing.T) {
	var b batch
	mark := func(i int) {
		_, of := tenants(i)
		b.add(key{namespace: "k8s.io", name: of}, map[string]string{LabelAccess + string(bob): Proof{noon, tenant.Host}.encode()})
	}
	revoke := func(i int) {
		repository, _ := tenants(i)
		b.revoke(revocation{place: placeOf("k8s.io", repository), holder: bob, refusals: []Refusal{tenant}})
	}
	b.revoke(revocation{place: placeOf("k8s.io", "registry.test/app"), holder: alice, refusals: []Refusal{origin}})
	mark(0)
	for i := range maxRevocations { // the first in a layer of its own, over the mark
		revoke(i)
	}
	mark(maxRevocations)
	readers, want := slices.Clone(b), b.clone()
	if b.bound(); len(b.all()) > maxRevocations {
		t.Errorf("%d revocations are left", len(b.all()))
	}
	if !reflect.DeepEqual(readers, want) {
		t.Errorf("readers have %d and %d marks", len(readers[0].marks), len(readers[1].marks))
	}
}
