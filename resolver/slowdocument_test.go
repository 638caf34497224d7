// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// A mirror has as much time for a config as for a layer where the registry behind it is dead: nobody else can
// give it.
func TestSlowConfigBeforeADeadRegistry(t *testing.T) {
	const (
		body  = `{"architecture":"amd64","os":"linux"}`
		needs = 12 * time.Second
	)
	for name, test := range map[string]struct {
		hosts []string
		known bool // the registry is known to be in trouble
		kind  string
		most  time.Duration
	}{
		"alone":               {[]string{mirrorName}, false, ocispec.MediaTypeImageConfig, needs},
		"a layer":             {[]string{mirrorName, registryName}, true, ocispec.MediaTypeImageLayer, needs},
		"a config":            {[]string{mirrorName, registryName}, true, ocispec.MediaTypeImageConfig, needs},
		"a config, not known": {[]string{mirrorName, registryName}, false, ocispec.MediaTypeImageConfig, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				r := newResolver(t, fakeOptions(n.roundTrip, test.hosts...))
				n.set(registryName, swallows)
				n.set(mirrorName, answering(http.StatusNotFound))
				if test.known {
					if _, err := once(t.Context(), r, Query{}, 5*time.Second); err == nil {
						t.Fatal("no error")
					}
					time.Sleep(health.ProbeTime)
					synctest.Wait()
					if !r.health.Blocked(health.KeyOf("http", registryName)) {
						t.Fatal("the registry is in no trouble")
					}
				}
				n.set(mirrorName, func(req *http.Request) (*http.Response, error) {
					if !getsBlob(req) {
						return near(req)
					}
					return after(needs, func(req *http.Request) (*http.Response, error) {
						return answer(req, http.StatusOK, nil, body), nil
					})(req)
				})
				s := openAt(t, r, Query{})
				f, err := s.Source(manifestDesc).Fetcher(t.Context(), imageRef)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				rc, err := f.Fetch(t.Context(), ocispec.Descriptor{MediaType: test.kind, Digest: digest.FromString(body), Size: int64(len(body))})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = rc.Close() }()
				if got, err := io.ReadAll(rc); err != nil || string(got) != body || time.Since(began) > test.most {
					t.Errorf("got %q, %v after %v", got, err, time.Since(began))
				}
			})
		})
	}
}
