// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
)

// The host that gave a proof takes it away, or the registry itself; what a mirror
// gave to all, only the mirror.
func TestRevokeEndsWhatItsHostGave(t *testing.T) {
	const mirror, hub = "mirror.test:5000", "registry-1.docker.io"
	path := origin.Host + "/v2/public" // a mirror at the registry's address
	for _, tc := range []struct {
		what     string
		name     string // "" = name
		by       string
		f        Fingerprint
		refusals []Refusal
		ends     bool
	}{
		{"its host", "", mirror, alice, []Refusal{{Host: mirror}}, true},
		{"another mirror", "", mirror, alice, []Refusal{{Host: "other.test"}}, false},
		{"the registry, a mirror's proof", "", mirror, alice, []Refusal{origin}, true},
		{"a mirror, the registry's proof", "", origin.Host, alice, []Refusal{{Host: mirror}}, false},
		{"a path of the registry's host, the registry's proof", "", origin.Host, alice, []Refusal{{Host: path}}, false},
		{"a path of the registry's host, what the registry gave to all", "", origin.Host, Anonymous, []Refusal{{Host: path}}, false},
		{"a path of the registry's host, its own proof", "", path, alice, []Refusal{{Host: path}}, true},
		{"a path of the registry's host by another spelling, its own proof", "", "Registry.test:443/v2/public", alice, []Refusal{{Host: path}}, true},
		{"another path of the registry's host", "", path, alice, []Refusal{{Host: origin.Host + "/v2/Public"}}, false},
		{"the root of the registry's host", "", origin.Host, alice, []Refusal{{Host: origin.Host + "/"}}, false},
		{"the registry, what a path of its host gave to one", "", path, alice, []Refusal{origin}, true},
		{"the registry, what a path of its host gave to all", "", path, Anonymous, []Refusal{origin}, false},
		{"the registry, of its one proof of that second", "", origin.Host, alice, []Refusal{{Host: origin.Host, Origin: true, Only: Proof{noon.Add(time.Millisecond), origin.Host}}}, true},
		{"the registry, of its earlier proof", "", origin.Host, alice, []Refusal{{Host: origin.Host, Origin: true, Only: Proof{noon.Add(-time.Second), origin.Host}}}, false},
		{"the registry, of a mirror's proof", "", origin.Host, alice, []Refusal{{Host: origin.Host, Origin: true, Only: Proof{noon, mirror}}}, false},
		{"another mirror, of its one proof", "", mirror, alice, []Refusal{{Host: "other.test", Only: Proof{noon, mirror}}}, false},
		{"two hosts", "", mirror, alice, []Refusal{{Host: "other.test"}, {Host: mirror}}, true},
		{"nobody", "", mirror, alice, nil, false},
		{"the registry, what a mirror gave to all", "", mirror, Anonymous, []Refusal{origin}, false},
		{"a mirror, what it gave to all", "", mirror, Anonymous, []Refusal{{Host: mirror}}, true},
		{"the registry, what it gave to all", "", origin.Host, Anonymous, []Refusal{origin}, true},
		{"a mirror, a proof of nobody knows whom", "", "", alice, []Refusal{{Host: mirror}}, true},
		{"the registry, one to all of nobody knows whom", "", "", Anonymous, []Refusal{origin}, true},
		{"its host, by its one name", "", "Mirror.test:05000", alice, []Refusal{{Host: mirror}}, true},
		{"its host, by another spelling", "", mirror, alice, []Refusal{{Host: "Mirror.test:05000"}}, true},
		{"the registry by its one name, what it gave to all", "", "Registry.test:443", Anonymous, []Refusal{origin}, true},
		{"the registry by another spelling, what it gave to all", "", origin.Host, Anonymous, []Refusal{{Host: origin.Host + ":443", Origin: true, Spelled: origin.Host + ":443"}}, false},
		{"the registry by its one name at an address with its port, what it gave to all", "", origin.Host, Anonymous, []Refusal{{Host: origin.Host + ":443", Origin: true}}, true},
		{"the registry by that spelling, what it gave to all", "Registry.test/app:v1", "Registry.test", Anonymous, []Refusal{{Host: "Registry.test", Origin: true, Spelled: "Registry.test"}}, true},
		{"the registry by another spelling, what it gave to one", "", origin.Host, alice, []Refusal{{Host: origin.Host + ":443", Origin: true, Spelled: origin.Host + ":443"}}, false},
		{"the registry by another spelling, what a mirror gave to one", "", mirror, alice, []Refusal{{Host: "Registry.test", Origin: true, Spelled: "Registry.test"}}, false},
		{"the registry by another spelling, a proof of nobody knows whom", "", "", alice, []Refusal{{Host: "Registry.test", Origin: true, Spelled: "Registry.test"}}, false},
		{"the registry by that spelling, what it gave to one", "Registry.test/app:v1", "Registry.test", alice, []Refusal{{Host: "Registry.test", Origin: true, Spelled: "Registry.test"}}, true},
		{"Docker Hub, what it gave to all", "", "Registry-1.docker.io", Anonymous, []Refusal{{Host: "registry-1.docker.io", Origin: true}}, true},
		{"the registry by another spelling, at the address of its one name, what that gave to all", "", origin.Host + ":443", Anonymous, []Refusal{{Host: origin.Host + ":443", Origin: true, Spelled: origin.Host + ":443"}}, false},
		{"a mirror of another spelling, what it gave to all by the one name", "", mirror, Anonymous, []Refusal{{Host: mirror, Spelled: "Registry.test"}}, false},
		{"Docker Hub by a spelling that is its address, what it gave to all", "docker.io/library/nginx:1", hub, Anonymous, []Refusal{{Host: hub, Origin: true, Spelled: hub}}, false},
		{"Docker Hub by that spelling, what it gave to all", hub + "/library/nginx:1", hub, Anonymous, []Refusal{{Host: hub, Origin: true, Spelled: hub}}, true},
	} {
		for _, onDisk := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, on disk %v", tc.what, onDisk), func(t *testing.T) {
				wantRevoked(t, cmp.Or(tc.name, name), Proof{noon, tc.by}, tc.f, tc.refusals, onDisk, tc.ends)
			})
		}
	}
}

// wantRevoked has a record of that name lose a proof by the refusals, or keep it, and keep another's.
func wantRevoked(t *testing.T, of string, p Proof, f Fingerprint, refusals []Refusal, onDisk, ends bool) {
	t.Helper()
	ctx, s, records := newStore(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	defer func() { must(s.Close()) }()
	_, err := records.Create(ctx, images.Image{Name: of, Target: one})
	must(err)
	v := verified(one)
	v.By = p.By
	s.MarkVerified(ctx, one.Digest, v, by(f, bob), of)
	if onDisk {
		must(s.sync(ctx, noMarks))
	}
	must(s.Revoke(ctx, of[:strings.LastIndex(of, ":")], []Fingerprint{f}, refusals...))
	r, err := s.Get(ctx, of)
	must(err)
	if got, left := r.Access[f]; left == ends || left && got != p {
		t.Errorf("left %v, %+v", left, got)
	}
	if _, ok := r.Access[bob]; !ok {
		t.Error("another's proof is gone")
	}
}

// Proofs without a check, as in labels of earlier versions, hold for nobody and restrict
// the image. A refusal must not open it.
func TestRevokeOpensNothing(t *testing.T) {
	for what, labels := range map[string]map[string]string{
		"an earlier version's": {},
		"one that is bound":    {LabelRecord: binding(name, one.Digest)},
		"one of nobody knows":  {LabelRecord: "?"},
	} {
		ctx, s, records := newStore(t)
		labels[LabelAccess+string(alice)] = encodeTime(noon)
		create(ctx, t, records, one, labels)
		if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); err != nil {
			t.Fatal(err)
		}
		r, err := s.Get(ctx, name)
		if err != nil || !r.Restricted || len(r.Access) != 0 {
			t.Errorf("%s: restricted %v, proved %v, %v", what, r.Restricted, r.Access, err)
		}
		// The next yes is to bob, and no other proof comes with it.
		s.MarkVerified(ctx, one.Digest, verified(one), by(bob), name)
		if r, err = s.Get(ctx, name); err != nil || len(r.Access) != 1 || r.Access[bob].At.IsZero() {
			t.Errorf("%s: after a check proved is %v, %v", what, r.Access, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// One revocation takes the proofs of several holders away, of each what the refusals
// end, and no others.
func TestRevokeSeveralHolders(t *testing.T) {
	const mirror, namespace = "mirror.test:5000", Fingerprint("a namespace")
	for what, tc := range map[string]struct {
		holders []Fingerprint
		left    []Fingerprint
	}{
		"credentials and namespace": {[]Fingerprint{alice, namespace}, []Fingerprint{Anonymous, bob}},
		"nobody and namespace":      {[]Fingerprint{Anonymous, namespace}, []Fingerprint{alice, Anonymous, bob}},
		"none":                      {nil, []Fingerprint{alice, namespace, Anonymous, bob}},
	} {
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, nil)
		v := verified(one)
		v.By = mirror
		s.MarkVerified(ctx, one.Digest, v, by(alice, namespace, Anonymous, bob), name)
		if err := s.Revoke(ctx, "registry.test/app", tc.holders, origin); err != nil {
			t.Fatal(err)
		}
		r, err := s.Get(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		left := slices.Sorted(maps.Keys(r.Access))
		if want := slices.Sorted(slices.Values(tc.left)); !slices.Equal(left, want) {
			t.Errorf("%s: left are %v, want %v", what, left, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProofLabels(t *testing.T) {
	for value, want := range map[string]Proof{
		"2026-01-02T12:00:00Z mirror.test:5000": {noon, "mirror.test:5000"},
		"2026-01-02T12:00:00Z":                  {At: noon},
	} {
		if got := decodeProof(value); got != want || got.encode() != value {
			t.Errorf("%q is %+v, and that %q", value, got, got.encode())
		}
	}
	for _, value := range []string{"", "some day", "mirror.test 2026-01-02T12:00:00Z"} {
		if got := decodeProof(value); !got.At.IsZero() {
			t.Errorf("%q is %+v", value, got)
		}
	}
}

// A refusal by another spelling of the registry's name ends what was given by that spelling,
// whoever gave it: on its records, and on those to which it was copied.
func TestRevokeBySpelling(t *testing.T) {
	const spelled, copied = "Registry.test/app:1", "copy.test/app:1"
	all := []string{name, spelled, copied}
	for _, tc := range []struct {
		what    string
		refusal Refusal
		left    []string
	}{
		{"its own spelling", Refusal{Host: "Registry.test", Origin: true, Spelled: "Registry.test"}, []string{name}},
		{"a third one", Refusal{Host: "registry.test:443", Origin: true, Spelled: "registry.test:443"}, all},
		{"the one name", origin, nil},
	} {
		ctx, s, records := newStore(t)
		proof := map[string]string{LabelAccess + string(alice): Proof{noon, "mirror.test:5000"}.encode(), LabelVerifiedDigest: one.Digest.String()}
		for record, writtenFor := range map[string]string{name: name, spelled: spelled, copied: spelled} {
			if _, err := records.Create(ctx, images.Image{Name: record, Target: one, Labels: bound(writtenFor, one, proof)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Revoke(ctx, "Registry.test/app", []Fingerprint{alice}, tc.refusal); err != nil {
			t.Fatal(err)
		}
		for _, record := range all {
			img, err := records.Get(ctx, record)
			if err != nil {
				t.Fatal(err)
			}
			if left := img.Labels[LabelAccess+string(alice)] != ""; left != slices.Contains(tc.left, record) {
				t.Errorf("%s: left on %s is %v", tc.what, record, left)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
