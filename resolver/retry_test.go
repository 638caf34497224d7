// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/tries"
)

// retryStatus answers with a status and a Retry-After, "" for none.
func retryStatus(code int, retryAfter string) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{}
		if retryAfter != "" {
			h.Set("Retry-After", retryAfter)
		}
		return answer(req, code, h, "scripted"), nil
	}
}

func failing(err error) roundTrip {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// dateIn is a date as Retry-After has it.
func dateIn(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }

// retries are failures, and how often each is tried again within how long.
var retries = map[string]struct {
	first   func() roundTrip // answers first, the manifest follows
	times   int              // how often
	budget  time.Duration
	class   failure.Class // None = the manifest is got
	tries   int
	atLeast time.Duration
	atMost  time.Duration
}{
	"503 once":                 {func() roundTrip { return retryStatus(503, "") }, 1, plenty, failure.None, 2, 0, tries.FirstBackoff},
	"503 twice":                {func() roundTrip { return retryStatus(503, "") }, 2, plenty, failure.None, 3, 0, 3 * tries.FirstBackoff},
	"503":                      {func() roundTrip { return retryStatus(503, "") }, 9, plenty, failure.Unavailable, 3, 0, 3 * tries.FirstBackoff},
	"429 asks for 2 s":         {func() roundTrip { return retryStatus(429, "2") }, 1, plenty, failure.None, 2, 2 * time.Second, 2 * time.Second},
	"429 asks for a date":      {func() roundTrip { return retryStatus(429, dateIn(3*time.Second)) }, 1, plenty, failure.None, 2, 3 * time.Second, 3 * time.Second},
	"429 asks for a past date": {func() roundTrip { return retryStatus(429, dateIn(-time.Hour)) }, 1, plenty, failure.None, 2, 0, tries.FirstBackoff},
	"429 asks for 0 s":         {func() roundTrip { return retryStatus(429, "0") }, 1, plenty, failure.None, 2, 0, tries.FirstBackoff},
	"429 asks for nonsense":    {func() roundTrip { return retryStatus(429, "-1") }, 1, plenty, failure.None, 2, 0, tries.FirstBackoff},
	"429 asks for too much":    {func() roundTrip { return retryStatus(429, "10") }, 9, 5 * time.Second, failure.RateLimited, 1, 0, 0},
	"429 twice uses it up":     {func() roundTrip { return retryStatus(429, "3") }, 9, 5 * time.Second, failure.RateLimited, 2, 3 * time.Second, 3 * time.Second},
	"503 asks too":             {func() roundTrip { return retryStatus(503, "1") }, 1, plenty, failure.None, 2, time.Second, time.Second},
	"no time for a backoff":    {func() roundTrip { return retryStatus(503, "") }, 9, 1, failure.Unavailable, 1, 0, 0},
	"EOF":                      {func() roundTrip { return failing(io.EOF) }, 2, plenty, failure.None, 3, 0, 3 * tries.FirstBackoff},
	"reset":                    {func() roundTrip { return failing(syscall.ECONNRESET) }, 9, plenty, failure.Unreachable, 3, 0, 3 * tries.FirstBackoff},
	"silence":                  {func() roundTrip { return silent(errors.New("server closed idle connection")) }, 9, plenty, failure.Unreachable, 3, 0, 3 * tries.FirstBackoff},
	"silent time-out is not":   {func() roundTrip { return silent(os.ErrDeadlineExceeded) }, 9, plenty, failure.Unreachable, 1, 0, 0},
	"refused is not":           {func() roundTrip { return failing(syscall.ECONNREFUSED) }, 9, plenty, failure.Unreachable, 1, 0, 0},
	"404 is not":               {func() roundTrip { return retryStatus(404, "1") }, 9, plenty, failure.NotFound, 1, 0, 0},
	"403 is not":               {func() roundTrip { return retryStatus(403, "") }, 9, plenty, failure.Forbidden, 2, 0, 0}, // HEAD, and GET for the reason
	"401 is not":               {func() roundTrip { return retryStatus(401, "") }, 9, plenty, failure.Unauthorized, 1, 0, 0},
	"nonsense is not":          {func() roundTrip { return failing(errors.New("nonsense")) }, 9, plenty, failure.Invalid, 1, 0, 0},
}

// Each failure is tried again as often as it may help, for as long as there is time.
func TestRetries(t *testing.T) {
	for name, test := range retries {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := test.first()
				tries := 0
				s := open(t, fakeOptions(besideProbes(func(req *http.Request) (*http.Response, error) {
					if tries++; tries <= test.times {
						return first(req)
					}
					return manifestAnswer(req), nil
				}), registryName), Query{})
				start := time.Now()
				_, err := s.Resolve(t.Context(), test.budget)
				if elapsed := time.Since(start); elapsed < test.atLeast || elapsed > test.atMost {
					t.Errorf("took %s, want %s to %s", elapsed, test.atLeast, test.atMost)
				}
				if test.class != failure.None {
					e := wantClass(t, err, test.class)
					if asked := strings.Contains(name, "too much"); asked != strings.Contains(e.Error(), "Retry-After 10s is too long") {
						t.Error(e)
					}
				} else if err != nil {
					t.Error(err)
				}
				if tries != test.tries {
					t.Errorf("tried %d times, want %d", tries, test.tries)
				}
			})
		})
	}
}

// silent fails after the request was sent, without a byte of an answer.
func silent(err error) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(req.Context()).WroteHeaders()
		return nil, err
	}
}

// A pull has no budget: it does not wait for ever.
func TestRetriesOfAPull(t *testing.T) {
	for after, want := range map[string]struct {
		tries int
		wait  time.Duration
	}{"2": {tries.MaxAttempts, 4 * time.Second}, "31": {1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			tries := map[string]int{}
			s := open(t, fakeOptions(besideProbes(func(req *http.Request) (*http.Response, error) {
				tries[req.URL.Host]++
				return answer(req, http.StatusTooManyRequests, http.Header{"Retry-After": {after}}, ""), nil
			}), "mirror.test", registryName), Query{})
			desc := ocispec.Descriptor{Digest: manifestDigest, Size: int64(len(manifest)), MediaType: ocispec.MediaTypeImageManifest}
			source := s.Source(desc)
			fetcher, err := source.Fetcher(t.Context(), imageRef)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			rc, err := fetcher.Fetch(t.Context(), desc)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(rc)
			wantClass(t, source.Failure(err), failure.RateLimited)
			if elapsed := time.Since(start); elapsed != want.wait || tries[registryName] != want.tries || tries["mirror.test"] != 1 {
				t.Errorf("Retry-After %s: took %s, tries %v", after, elapsed, tries)
			}
			if err := rc.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNoRetryOfAMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		s := open(t, fakeOptions(besideProbes(func(req *http.Request) (*http.Response, error) {
			asked[req.URL.Host]++
			return answer(req, http.StatusTooManyRequests, nil, ""), nil
		}), "mirror.test", registryName), Query{})
		_, err := s.Resolve(t.Context(), plenty)
		wantClass(t, err, failure.RateLimited)
		if asked["mirror.test"] != 1 || asked[registryName] != tries.MaxAttempts {
			t.Errorf("asked %v", asked)
		}
	})
}

func TestCallerEndsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeOptions(func(req *http.Request) (*http.Response, error) {
			return answer(req, http.StatusTooManyRequests, http.Header{"Retry-After": {"20"}}, ""), nil
		}, registryName), Query{})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		start := time.Now()
		time.AfterFunc(5*time.Second, cancel)
		if _, err := s.Resolve(ctx, plenty); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if elapsed := time.Since(start); elapsed != 5*time.Second {
			t.Errorf("took %s", elapsed)
		}
	})
}

// A registry that limits requests is asked once where the caller has something else to use,
// unless it says itself when to come again.
func TestLimitsAreNotTriedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		status     int
		retryAfter string
		fallback   failure.Set
		tries      int
	}{
		"429, with a fallback":                  {http.StatusTooManyRequests, "", reused.Fallback, 1},
		"429, without":                          {http.StatusTooManyRequests, "", 0, 3},
		"429, with one for something else":      {http.StatusTooManyRequests, "", failure.SetOf(failure.Unavailable), 3},
		"429 that asks for 1s, with a fallback": {http.StatusTooManyRequests, "1", reused.Fallback, 3},
		"408, with a fallback":                  {http.StatusRequestTimeout, "", reused.Fallback, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				limited := retryStatus(test.status, test.retryAfter)
				s := open(t, fakeOptions(besideProbes(func(req *http.Request) (*http.Response, error) {
					tries++
					return limited(req)
				}), registryName), Query{Fallback: test.fallback})
				if _, err := s.Resolve(t.Context(), plenty); err == nil || tries != test.tries {
					t.Errorf("%d tries, want %d: %v", tries, test.tries, err)
				}
			})
		})
	}
}
