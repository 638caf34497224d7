// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A token server that limits requests asks for a longer wait than a check has time for: the host is
// given up at once, as rate_limited, also where a check with more time waits for the same token.
func TestRetryAfterThatDoesNotFitWhoeverElseWaits(t *testing.T) {
	for name, test := range map[string]struct{ patient, late bool }{
		"alone":                         {},
		"beside a check with more time": {patient: true},
		"while that waits":              {patient: true, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			begun, let := make(chan struct{}), make(chan struct{})
			begin := sync.OnceFunc(func() { close(begun) })
			g.tokens = func(w http.ResponseWriter, r *http.Request) {
				begin()
				<-let
				w.Header().Set("Retry-After", "60")
				answerStatus(http.StatusTooManyRequests)(w, r)
			}
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL))}})
			check := func(timeout time.Duration) <-chan error {
				s, done := openAt(t, r, Query{Credentials: alice}), make(chan error, 1)
				go func() {
					_, err := s.Resolve(t.Context(), timeout)
					done <- err
				}()
				return done
			}
			if test.patient {
				check(2 * time.Minute)
				<-begun
			}
			if test.late {
				close(let)
				time.Sleep(200 * time.Millisecond) // it has been answered
			}
			began := time.Now()
			done := check(3 * time.Second)
			if <-begun; !test.late {
				time.Sleep(200 * time.Millisecond) // it has joined
				close(let)
			}
			err := <-done
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the host was given up after %v", took)
			}
			wantClass(t, err, failure.RateLimited)
		})
	}
}

// A 429 is an answer of the registry, after which no mirror says what a tag means in its place, also
// where a check with more time waits for the same token.
func TestNoMirrorAfterRetryAfterWhoeverElseWaits(t *testing.T) {
	for name, patient := range map[string]bool{"alone": false, "beside a check with more time": true} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			g.tokens = func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "60")
				answerStatus(http.StatusTooManyRequests)(w, r)
			}
			mirror, asked := serve(t, serveManifest)
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, g.server.URL))}})
			if patient {
				s := openAt(t, r, Query{Credentials: alice, Order: OriginOnly})
				go func() { _, _ = s.Resolve(t.Context(), 2*time.Minute) }()
				time.Sleep(300 * time.Millisecond) // it waits for the second try
			}
			s := openAt(t, r, Query{Credentials: alice, Order: OriginThenMirrors})
			got, err := s.Resolve(t.Context(), 3*time.Second)
			if err == nil {
				t.Fatalf("%s says what the tag means, in the place of the registry: %s (%s); it was asked %v", got.Host, got.Descriptor.Digest, got.OriginFailed, asked.list())
			}
			wantClass(t, err, failure.RateLimited)
		})
	}
}
