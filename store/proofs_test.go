// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
)

const (
	alice Fingerprint = "0123456789abcdef0123456789abcdef"
	bob   Fingerprint = "fedcba9876543210fedcba9876543210"
)

var origin = Refusal{Host: "registry.test", Origin: true}

func verified(target ocispec.Descriptor) Verified {
	return Verified{Digest: target.Digest, At: noon, By: "registry.test"}
}

func who(ctx context.Context, t *testing.T, s *Store, name string) []Fingerprint {
	t.Helper()
	r, err := s.Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	var all []Fingerprint
	for f := range r.Access {
		all = append(all, f)
	}
	slices.Sort(all)
	return all
}

func wantWho(ctx context.Context, t *testing.T, s *Store, name string, want ...Fingerprint) {
	t.Helper()
	slices.Sort(want)
	if got := who(ctx, t, s, name); !slices.Equal(got, want) {
		t.Errorf("%s: proofs of %v, want %v", name, got, want)
	}
}

func TestProofs(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	if r, err := s.Get(ctx, name); err != nil || r.Restricted {
		t.Errorf("an image without labels: restricted %v, %v", r.Restricted, err)
	}
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
	wantWho(ctx, t, s, name, alice)
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	s.MarkVerified(ctx, one.Digest, verified(one), by(bob, Anonymous), name)
	wantWho(ctx, t, s, name, alice, bob, Anonymous)
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name, alice, bob, Anonymous)

	// When the target moves without us, no proof holds, and nothing is known of the
	// other image.
	if _, err := records.Update(ctx, images.Image{Name: name, Target: two}, "target"); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name)
	if r, err := s.Get(ctx, name); err != nil || r.Restricted {
		t.Errorf("restricted %v, %v", r.Restricted, err)
	}

	// Nor does a check of the new target make them hold again.
	s.MarkVerified(ctx, two.Digest, verified(two), by(bob), name)
	wantWho(ctx, t, s, name, bob)
	found, err := s.First(ctx, [][]string{{name}})
	if err != nil || found[0] == nil || len(found[0].Access) != 1 {
		t.Errorf("listed as %v, %v", found, err)
	}
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name, bob)
	img, err := records.Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := img.Labels[LabelAccess+string(alice)]; ok {
		t.Error("the proof of another digest is still on disk")
	}
	s.MarkVerified(ctx, two.Digest, verified(two), by(alice), name)
	wantWho(ctx, t, s, name, alice, bob)
}

func TestDecodeAccess(t *testing.T) {
	labels := map[string]string{LabelAccess + string(alice): "2026-01-02T12:00:00Z"}
	if s := Decode(name, one.Digest, labels); len(s.Access) != 0 || !s.Restricted {
		t.Errorf("a proof without a check: %+v", s)
	}
	labels = State{Verified: verified(one)}.Labels(name, one.Digest)
	labels[LabelAccess+string(alice)] = "some day"
	if s := Decode(name, one.Digest, labels); len(s.Access) != 0 || !s.Restricted {
		t.Errorf("a proof of some day: %+v", s)
	}
	for label, value := range map[string]string{LabelPullSource: "a.test/b:1", LabelStaleSince: "2026-01-02T12:00:00Z"} {
		if s := Decode(name, one.Digest, map[string]string{label: value}); s.Restricted {
			t.Errorf("%s alone restricts", label)
		}
	}
}

// The repository's tags and digests lose the caller's proof, others keep
// theirs, and other repositories are not touched.
func TestRevoke(t *testing.T) {
	ctx, s, records := newStore(t)
	const repository = "registry.test/app"
	in := []string{repository + ":1", repository + ":2", repository + "@" + one.Digest.String()}
	out := []string{"registry.test/app2:1", "registry.test/app/sub:1", "registry.test/other:1"}
	for _, n := range append(slices.Clone(in), out...) {
		if _, err := records.Create(ctx, images.Image{Name: n, Target: one}); err != nil {
			t.Fatal(err)
		}
		s.MarkVerified(ctx, one.Digest, verified(one), by(alice), n)
	}
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	// Some of it is not written yet.
	s.MarkVerified(ctx, one.Digest, verified(one), by(bob), in...)
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice), in[0])

	if err := s.Revoke(ctx, repository, []Fingerprint{alice}, origin); err != nil {
		t.Fatal(err)
	}
	// As after a kill -9: what counts is on disk.
	for _, n := range in {
		img, err := records.Get(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := img.Labels[LabelAccess+string(alice)]; ok {
			t.Errorf("%s still has the proof on disk", n)
		}
		wantWho(ctx, t, s, n, bob)
	}
	for _, n := range out {
		wantWho(ctx, t, s, n, alice)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, in[0], bob)
}

func TestAtMost32Proofs(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	fingerprint := func(i int) Fingerprint { return Fingerprint(fmt.Sprintf("%032x", i)) }
	for i := range 40 {
		v := verified(one)
		v.At = noon.Add(time.Duration(i) * time.Minute)
		s.MarkVerified(ctx, one.Digest, v, by(fingerprint(i)), name)
		if i == 5 {
			s.Used(ctx, fingerprint(0), noon.Add(time.Hour), name) // the oldest, but not the longest unused
		}
		if err := s.sync(ctx, noMarks); err != nil {
			t.Fatal(err)
		}
	}
	got := who(ctx, t, s, name)
	if len(got) != maxProofs {
		t.Fatalf("%d proofs", len(got))
	}
	if !slices.Contains(got, fingerprint(0)) || !slices.Contains(got, fingerprint(39)) || slices.Contains(got, fingerprint(1)) || slices.Contains(got, fingerprint(8)) {
		t.Errorf("the wrong ones went: %v", got)
	}
}

// A proof that is written after Revoke has read the records is neither among
// them nor pending any more.
func TestRevokeWhileAProofIsWritten(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	mark := State{Verified: verified(one), Access: map[Fingerprint]Proof{alice: {noon, origin.Host}, bob: {noon, origin.Host}}}.Labels(name, one.Digest)
	k := keyAt(ctx, t, records, name)
	s.mu.Lock() // out of the writer's sight
	s.pending.add(k, mark)
	s.mu.Unlock()
	reads, written := 0, make(chan error, 1)
	s.db = &between{DB: s.db, fn: func() {
		reads++
		go func() { written <- s.sync(ctx, noMarks) }()
	}}
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name, bob)
	if _, ok := labelsOf(ctx, t, records)[LabelAccess+string(alice)]; ok {
		t.Error("the proof is still on disk")
	}
	if err := <-written; err != nil || reads != 1 {
		t.Errorf("the records were read %d times, %v", reads, err)
	}
}

// unwritable is an image store that cannot change a record.
type unwritable struct {
	images.Store
	name string
}

var errUnwritable = errors.New("cannot be written")

func (u *unwritable) Update(ctx context.Context, img images.Image, fieldpaths ...string) (images.Image, error) {
	if img.Name == u.name {
		return images.Image{}, errUnwritable
	}
	return u.Store.Update(ctx, img, fieldpaths...)
}

// A revocation that cannot be written is an error, and holds nevertheless until
// it can.
func TestRevokeThatCannotBeWritten(t *testing.T) {
	const other = "registry.test/app:2"
	ctx, s, records := newStore(t)
	defer s.Close()
	state := State{Verified: verified(one), Access: map[Fingerprint]Proof{alice: {noon, origin.Host}, bob: {noon, origin.Host}}}
	for _, n := range []string{name, other} {
		labels := labels.Present(state.Labels(n, one.Digest))
		if _, err := records.Create(ctx, images.Image{Name: n, Target: one, Labels: labels}); err != nil {
			t.Fatal(err)
		}
	}
	store := &unwritable{Store: records, name: name}
	s.images = store
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); !errors.Is(err, errUnwritable) {
		t.Errorf("got %v", err)
	}
	for _, n := range []string{name, other} {
		wantWho(ctx, t, s, n, bob)
	}
	if _, ok := labelsOf(ctx, t, records)[LabelAccess+string(alice)]; !ok {
		t.Error("the proof was taken from the disk: the test shows nothing")
	}
	store.name = ""
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); err != nil {
		t.Error(err)
	}
	if _, ok := labelsOf(ctx, t, records)[LabelAccess+string(alice)]; ok {
		t.Error("the proof is still on disk")
	}
	wantWho(ctx, t, s, name, bob)
}

func TestRepositoryOf(t *testing.T) {
	for name, want := range map[string]bool{
		"a.test/b:1": true, "a.test/b@" + string(digest.FromString("")): true,
		"a.test/b": false, "a.test/b2:1": false, "a.test/b/c:1": false, "a.test:5000/b:1": false,
		"A.test/b:1": true, "a.test:443/b:1": true, "a.test/B:1": false,
	} {
		if got := repositoryOf(name) == "a.test/b"; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, name := range []string{"docker.io/library/b:1", "registry-1.docker.io/b:1", "Docker.io/b@" + string(digest.FromString(""))} {
		for _, repository := range []string{"docker.io/library/b", "index.docker.io/b"} {
			if r := (revocation{place: placeOf("k8s.io", repository)}); !r.isOf("k8s.io", name) || r.isOf("other", name) {
				t.Errorf("%s is no image of %s", name, repository)
			}
		}
	}
}
