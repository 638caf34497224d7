// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A pull leaves no mirror, which is only slow, for a registry whose own tokens hang.
func TestSlowMirrorIsNotLeftForTokensThatHang(t *testing.T) {
	const slow = 12 * time.Second
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		h := newHome(&n, registryName, registryName)
		n.set(mirrorName, func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodGet && req.URL.Path != "/v2/" {
				return after(slow, fine)(req)
			}
			return fine(req)
		})
		breaks(&h.tokens, after(30*time.Second, func(*http.Request) (*http.Response, error) { return nil, os.ErrDeadlineExceeded })) // as containerd bounds the header
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		q := of("team/app", "alice")
		q.Order = OriginThenMirrors
		for range 2 {
			s := openAt(t, r, q)
			found, err := s.Resolve(t.Context(), 8*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			fetchManifest(t, s, found.Descriptor)
			if took := time.Since(began); took > slow {
				t.Errorf("%v in place of %v", took, slow)
			}
			time.Sleep(time.Second)
		}
	})
}

// A registry that limits its tokens, which it gives at its own address, is left alone for that time.
func TestLimitOfTokensAtHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		asked := 0
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			challenge := `Bearer realm="http://` + registryName + `/token",scope="repository:team/app:pull"`
			if req.URL.Path == "/v2/" {
				return answering(http.StatusUnauthorized, "WWW-Authenticate", challenge)(req)
			}
			asked++
			if strings.HasPrefix(req.URL.Path, "/token") {
				return answering(http.StatusTooManyRequests, "Retry-After", "240")(req)
			}
			return answering(http.StatusUnauthorized, "WWW-Authenticate", challenge)(req)
		})
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		q := Query{Credentials: as("alice", "password"), Fallback: failure.SetOf(failure.All()...)}
		if _, err := once(t.Context(), r, q, 5*time.Second); err == nil || asked == 0 {
			t.Fatalf("%d requests, %v", asked, err)
		}
		asked = 0
		for range 20 {
			time.Sleep(10 * time.Second)
			_, _ = once(t.Context(), r, q, 5*time.Second)
		}
		if asked > 0 {
			t.Errorf("asked %d times in the time for which it has asked to be left alone", asked)
		}
	})
}
