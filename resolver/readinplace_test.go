// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// A mirror that has answered in the place of a dead registry is asked at once for what a check reads, as it is
// for a pull's content.
func TestReadsInThePlaceOfADeadRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		n.set(registryName, swallows)
		n.set(mirrorName, fine)
		if _, err := once(t.Context(), r, Query{Order: OriginOnly}, 5*time.Second); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(health.ProbeTime)
		synctest.Wait()
		if !r.health.Blocked(health.KeyOf("http", registryName)) {
			t.Fatal("the registry is in no trouble")
		}
		s := openAt(t, r, Query{Order: OriginThenMirrors, ReadManifest: true, Known: manifestDigest, Fallback: reused.Fallback})
		found, err := s.Resolve(t.Context(), 5*time.Second)
		if err != nil || found.Host != mirrorName || found.OriginFailed != failure.Unreachable {
			t.Fatalf("got %+v, %v", found, err)
		}
		source := s.Source(found.Descriptor)
		for name, of := range map[string]Source{"all": source, "those that answer": source.Answering(found.Host)} {
			f, err := of.Fetcher(t.Context(), imageRef)
			if err != nil {
				t.Fatal(err)
			}
			n.asked()
			began := time.Now()
			rc, err := f.Fetch(t.Context(), manifestDesc)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(rc); err != nil || time.Since(began) > 0 {
				t.Errorf("of %s: %v after %v", name, err, time.Since(began))
			}
			_ = rc.Close()
			wantAsked(t, &n, http.MethodGet+" "+mirrorName)
		}
	})
}
