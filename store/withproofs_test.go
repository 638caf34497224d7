// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// generated makes records and batches of few names and holders, so that many of them meet.
type generated struct{ *rand.Rand }

func oneOf[T any](g generated, all ...T) T { return all[g.IntN(len(all))] }

func (g generated) repository() string {
	return oneOf(g, "registry.test", "Registry.test:443", "other.test", "docker.io", "index.docker.io") + oneOf(g, "/app", "/library/app", "/team/app", "/App")
}

func (g generated) name() string {
	return oneOf(g, g.repository()+":1", g.repository()+":2", g.repository()+"@"+one.Digest.String(), g.repository(), one.Digest.String(), "app:1", "")
}

func (g generated) holder() Fingerprint {
	return oneOf(g, alice, bob, Anonymous, "", Fingerprint(string(alice)+"-longer"), alice[:4])
}

// labels are as pullwarden writes them, or anybody else does.
func (g generated) labels(name string) map[string]string {
	all := map[string]string{"other": "label", "pullwarden.io/acces": "before", "pullwarden.io/access/": "behind"}
	for range g.IntN(4) {
		label := oneOf(g, LabelAccess+string(g.holder()), besideProof(g.holder()), besideProof(g.holder())+earlier)
		all[label] = oneOf(g, Proof{noon, origin.Host}.encode(), Proof{At: noon}.encode(), "mirror.test", " ", "\x00\xff", "")
	}
	all[LabelVerifiedDigest] = oneOf(g, one.Digest.String(), two.Digest.String(), "")
	all[LabelMirrorDigest] = oneOf(g, one.Digest.String(), "", "")
	all[LabelRecord] = oneOf(g, binding(name, one.Digest), binding(g.name(), one.Digest), binding(g.name(), two.Digest), one.Digest.String(), "?", "")
	return labels.Present(all)
}

func (g generated) batch(marked []key) (b batch) {
	for range 1 + g.IntN(4) {
		r := revocation{place: placeOf(oneOf(g, "k8s.io", "k8s.io", "default"), g.repository()), holder: g.holder()}
		r.refusals = []Refusal{oneOf(g, origin, Refusal{Host: "mirror.test"}, Refusal{Host: "Registry.test:443", Origin: true, Spelled: "Registry.test:443"})}
		if g.IntN(8) == 0 {
			r = revocation{place: oneOf(g, r.place, r.registry(), r.everywhere()), everybody: true}
		}
		b.revoke(r)
		if g.IntN(2) == 0 {
			k := oneOf(g, marked...)
			b.add(k, bound(k.name, one, map[string]string{LabelVerifiedDigest: one.Digest.String(), LabelAccess + string(g.holder()): Proof{noon, origin.Host}.encode()}))
		}
	}
	return b
}

// fill makes records in both namespaces, and returns their keys.
func (g generated) fill(t *testing.T, s *Store) (all []key) {
	t.Helper()
	if err := s.db.Update(func(tx *bolt.Tx) error {
		for range 200 {
			namespace, of := oneOf(g, "k8s.io", "k8s.io", "default"), g.name()
			img := images.Image{Name: of, Target: oneOf(g, one, two), Labels: g.labels(of)}
			img, err := s.images.Create(inTransaction(tx, namespace), img)
			if err == nil {
				all = append(all, keyOf(namespace, img))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// listed are the labels of all records of which the batch may change any, and what it ends of them, once all are decoded.
func listed(t *testing.T, tx *bolt.Tx, s *Store, b index) (map[key]map[string]string, onDisk) {
	t.Helper()
	changed, disk := map[key]map[string]string{}, newOnDisk()
	for k := range b.marked {
		changed[k] = nil
	}
	for namespace := range b.layers.revoking() {
		all, err := s.images.List(inTransaction(tx, namespace))
		if err != nil {
			t.Fatal(err)
		}
		for _, img := range all {
			k := keyOf(namespace, img)
			for _, l := range b.layers {
				if disk.note(l.revocations, k, img.Labels) {
					changed[k] = img.Labels
				}
			}
		}
	}
	return changed, disk
}

// The records that are passed over have nothing that a revocation is about, whoever wrote their labels: of those that are read follows what of
// all of them does.
func TestRecordsThatArePassedOverHaveNothingToLose(t *testing.T) {
	seed := rand.Uint64()
	g := generated{rand.New(rand.NewPCG(seed, 0))}
	sorted := func(rs revocations) (all []string) {
		for r := range rs.each() {
			all = append(all, fmt.Sprintf("%+v", r))
		}
		slices.Sort(all)
		return all
	}
	ended, spared := 0, 0
	for range 2 {
		_, s, _ := newStore(t)
		all := g.fill(t, s)
		for range 40 {
			b := g.batch(all).index()
			if err := s.db.View(func(tx *bolt.Tx) error {
				changed, disk := listed(t, tx, s, b)
				found, got, err := s.changing(tx, b)
				for k := range b.marked {
					if changed[k] == nil {
						found[k] = nil // its labels are of no use
					}
				}
				if diff := cmp.Diff(changed, found, cmp.AllowUnexported(key{})); diff != "" || err != nil {
					t.Errorf("seed %d: of all records, of those that are read: %s, %v", seed, diff, err)
				}
				for _, rs := range [][2]revocations{{disk.ended, got.ended}, {disk.had, got.had}} {
					if diff := cmp.Diff(sorted(rs[0]), sorted(rs[1])); diff != "" {
						t.Errorf("seed %d: by all records, by those that are read: %s", seed, diff)
					}
				}
				ended += len(changed)
				spared += len(all) - len(found)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if ended == 0 || spared == 0 {
		t.Errorf("seed %d: %d records were changed, and %d not: the test shows nothing", seed, ended, spared)
	}
}

// decodedRecords counts the records that are decoded.
type decodedRecords struct {
	images.Store
	n int
}

func (d *decodedRecords) Get(ctx context.Context, name string) (images.Image, error) {
	d.n++
	return d.Store.Get(ctx, name)
}

func (d *decodedRecords) List(ctx context.Context, filters ...string) ([]images.Image, error) {
	all, err := d.Store.List(ctx, filters...)
	d.n += len(all)
	return all, err
}

// A refusal of a holder who has no proof in its repository decodes no record, of however many a node has, and also where the
// holder has proofs of others: pulls wait meanwhile.
func TestRefusalOfNothingDecodesNothing(t *testing.T) {
	ctx, s, records, _ := filled(t, 8)
	defer s.Close()
	decoded := &decodedRecords{Store: records}
	s.images = decoded
	other, _ := tenants(8) // of which there is no image
	for repository, f := range map[string]Fingerprint{"registry.test/app": "nobody", other: bob, "tenant.test/r0": alice} {
		if err := s.Revoke(ctx, repository, []Fingerprint{f, "a namespace"}, tenant); err != nil {
			t.Fatal(err)
		}
	}
	if decoded.n > 0 {
		t.Errorf("%d records were decoded", decoded.n)
	}
}

// writes counts the transactions that read records for the writer, and those that write.
type writes struct {
	DB
	reads, n int
}

func (w *writes) View(fn func(*bolt.Tx) error) error {
	w.reads++
	return w.DB.View(fn)
}

func (w *writes) Update(fn func(*bolt.Tx) error) error {
	w.n++
	return w.DB.Update(fn)
}

// Refusals that wait while the writer is busy are read and written together: each ends what it is about, and one of nothing
// does not wait for that.
func TestRefusalsThatWaitAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, nil)
		v := verified(one)
		var refused []Fingerprint
		for i := range maxProofs - 1 {
			refused = append(refused, holder(i))
		}
		s.MarkVerified(ctx, one.Digest, v, by(append(refused, bob)...), name)
		flush(ctx, t, s)
		counted := &writes{DB: s.db}
		s.db = counted
		done := make(chan error, len(refused)+1)
		if err := s.WriteProofs(ctx, func() error {
			for _, f := range append(refused, "nobody") {
				go func() { done <- s.Revoke(ctx, "registry.test/app", []Fingerprint{f}, origin) }()
			}
			synctest.Wait() // all of them wait
			wantWho(ctx, t, s, name, bob)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if counted.n != 1 || counted.reads != 1 {
			t.Errorf("%d refusals are read %d times, and written %d times", len(refused), counted.reads, counted.n)
		}
		all := labelsOf(ctx, t, records)
		maps.DeleteFunc(all, func(l, _ string) bool { _, _, ok := holderOf(l); return !ok })
		if len(all) == 0 || all[LabelAccess+string(bob)] == "" || len(all) > 2 {
			t.Errorf("on disk are %v", all)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A record that cannot be decoded fails the refusals that may have something to take from it, which hold all the same, and no others.
func TestRefusalsBesideARecordThatCannotBeDecoded(t *testing.T) {
	ctx, s, records, disk := filled(t, 1)
	disk.full.Store(false)
	repository, of := tenants(0)
	createdAt := func(change func(record *bolt.Bucket) error) {
		t.Helper()
		if err := disk.Update(func(tx *bolt.Tx) error { return change(rawRecords(tx, "k8s.io").Bucket([]byte(of))) }); err != nil {
			t.Fatal(err)
		}
	}
	var before []byte
	createdAt(func(record *bolt.Bucket) error {
		before = slices.Clone(record.Get([]byte("createdat")))
		return record.Put([]byte("createdat"), []byte("some day"))
	})
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); err != nil {
		t.Errorf("of another image: %v", err)
	}
	wantHas(t, labelsOf(ctx, t, records), bob, Anonymous)
	if err := s.Revoke(ctx, repository, []Fingerprint{bob}, tenant); !errors.Is(err, errUnlisted) {
		t.Errorf("of the image itself: %v", err)
	}
	createdAt(func(record *bolt.Bucket) error { return record.Put([]byte("createdat"), before) })
	wantWho(ctx, t, s, of)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	img, err := records.Get(ctx, of)
	if err != nil || len(Decode(of, one.Digest, img.Labels).Access) > 0 {
		t.Errorf("on disk are %v, %v", img.Labels, err)
	}
}
