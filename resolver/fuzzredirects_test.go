// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// However hosts, storage services and token servers lead around: secrets and tokens get to those alone whom
// they are for, a refusal is the host's own word, and an answer counts as everybody's, or as one to the
// caller's credentials, where that is so.
func FuzzRedirectsAndTokens(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{seed: seed}
			r := newResolver(t, fakeOptions(besideProbes(w.roundTrip), mirrorName, registryName))
			for _, q := range []Query{{}, {Absent: true}, {ReadManifest: true}} {
				for _, caller := range []string{"alice", "", "bob"} {
					for _, q.Reference = range []string{imageRef, registryName + "/team/other:v1"} {
						w.visits = nil
						w.holds(t, r, q, caller)
						if t.Failed() {
							for _, v := range w.visits {
								t.Log(v)
							}
							return
						}
					}
				}
			}
		})
	})
}

// holds checks and pulls, and holds what is promised of that.
func (w *world) holds(t *testing.T, r *Resolver, q Query, caller string) {
	t.Helper()
	if caller != "" {
		q.Credentials = func(string) (string, string, error) { return caller, "word-of-" + caller, nil }
	}
	s := openAt(t, r, q)
	defer s.Close()
	found, err := s.Resolve(t.Context(), plenty)
	w.holdsRefusals(t, found.Attempts)
	if failed, ok := errors.AsType[*Error](err); ok {
		w.holdsRefusals(t, failed.Refusals())
	}
	checked := len(w.visits)
	source := s.Source(manifestDesc)
	for _, desc := range []ocispec.Descriptor{
		{MediaType: ocispec.MediaTypeImageManifest, Digest: manifestDigest, Size: int64(len(manifest))},
		{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5},
	} {
		_, err := read(t, source, desc)
		if failed := source.Failure(err); err != nil && failed != nil {
			w.holdsRefusals(t, failed.Refusals())
		}
	}
	w.holdsRefusals(t, source.Refusals())
	shown := false
	for i, v := range w.visits {
		holdsSecrets(t, v, caller)
		served := v.status < 400 && !v.token() && v.shown != ""
		name, _, _ := strings.Cut(strings.TrimPrefix(v.shown, "Bearer "), "_")
		shown = shown || served && caller != "" && (name == caller || v.shown == caller+":word-of-"+caller)
		answered := i < checked && v.first().Host == found.Host && !q.Absent // else there are two ways to the answer
		if served && (answered && found.Anonymous || err == nil && (answered || i >= checked) && s.OpenToAll(manifestDigest)) {
			t.Errorf("%q: it is everybody's, after %v", caller, v)
		}
	}
	if s.CredentialsShown() && !shown {
		t.Errorf("%q: credentials count as shown", caller)
	}
}

// holdsSecrets holds that a visit shows nothing that is not for who is visited.
func holdsSecrets(t *testing.T, v *visit, caller string) {
	t.Helper()
	token, isToken := strings.CutPrefix(v.shown, "Bearer ")
	switch {
	case v.shown == "" || v.shown == "store:key" && v.url().User != nil:
	case isToken:
		of := strings.Split(token, "_") // see tokenServer
		own := of[2] == "1"
		if of[0] != "" && of[0] != caller || own && (v.strayed() || v.first().Host != of[1]) || !own && len(v.chain) == 1 {
			t.Errorf("%q shows a token: %v", caller, v)
		}
	case v.shown != caller+":word-of-"+caller || v.strayed(),
		v.token() && v.first().Query().Get("own") != "1", !v.token() && !configured(v.first()):
		t.Errorf("%q shows a secret: %v", caller, v)
	}
}

// holdsRefusals holds that the host of each refusal has refused, or its token server.
func (w *world) holdsRefusals(t *testing.T, attempts []Attempt) {
	t.Helper()
	for _, a := range attempts {
		refused := func(v *visit) bool {
			if v.token() {
				q := v.first().Query()
				return q.Get("own") == "1" && q.Get("for") == a.Host && !v.strayed() && slices.Contains([]int{400, 401, 403}, v.status)
			}
			return v.first().Host == a.Host && v.url().Host == a.Host && !v.strayed() && (v.status == 401 || v.status == 403)
		}
		if a.Refused && !slices.ContainsFunc(w.visits, refused) {
			t.Errorf("%s has refused nothing: %v", a.Host, a.Err)
		}
	}
}
