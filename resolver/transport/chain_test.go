// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/tries"
)

// Each try is examined and observed, and a temporary fault of the examination is
// tried again.
func TestExamineSeesEachTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(answering(http.StatusOK))
		var observed []string
		c.Observe = func(o Observation) { observed = append(observed, fmt.Sprintf("%s %s %d", o.Method, o.Host, o.Code)) }
		examined := 0
		rt := c.Registry(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				resp, err := next.RoundTrip(req)
				if examined++; err == nil && examined < tries.MaxAttempts {
					_ = resp.Body.Close()
					return nil, &fault.Fault{Class: failure.Unreachable, Err: io.ErrUnexpectedEOF, Temporary: true}
				}
				return resp, err
			})
		})
		if _, err := send(t.Context(), t, rt, purpose.Purpose{Kind: purpose.Check, Last: true}); err != nil || examined != tries.MaxAttempts {
			t.Errorf("examined %d times: %v", examined, err)
		}
		if want := slices.Repeat([]string{"GET registry.test 200"}, tries.MaxAttempts); !slices.Equal(observed, want) {
			t.Errorf("observed %v", observed)
		}
	})
}

// A request for a token is not made again, whoever has begun it: others may wait for it.
func TestTokensAreOneTry(t *testing.T) {
	asked := 0
	rt := config(roundTrip(func(req *http.Request) (*http.Response, error) {
		asked++
		return answer(req, http.StatusServiceUnavailable, ""), nil
	})).Token()
	_, err := send(t.Context(), t, rt, purpose.Purpose{Kind: purpose.Check, Last: true})
	if wantFault(t, err, failure.Unavailable); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// A token server's answer ends at a bound, and where it breaks off that is
// judged.
func TestTokenAnswers(t *testing.T) {
	body := func(r io.Reader) roundTrip {
		return func(req *http.Request) (*http.Response, error) {
			resp := answer(req, http.StatusOK, "")
			resp.Body = io.NopCloser(r)
			return resp, nil
		}
	}
	for name, test := range map[string]struct {
		body  io.Reader
		class failure.Class
	}{
		"small":      {strings.NewReader("{}"), failure.None},
		"too large":  {bytes.NewReader(make([]byte, maxToken+1)), failure.Invalid},
		"broken off": {io.MultiReader(strings.NewReader("{"), errReader{}), failure.Unreachable},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/v2/x?secret=y", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := config(body(test.body)).Token().RoundTrip(req)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if test.class != failure.None {
			wantFault(t, err, test.class)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A document must begin in time where another host can give it; anything else
// has its time.
func TestDocumentsBeginInTime(t *testing.T) {
	for name, test := range map[string]struct {
		p    purpose.Purpose
		slow bool
	}{
		"a document":          {purpose.Purpose{Kind: purpose.Fetch, Document: true, Next: []health.Key{nextHost}}, true},
		"of the last host":    {purpose.Purpose{Kind: purpose.Fetch, Document: true, Last: true}, false},
		"a layer":             {purpose.Purpose{Kind: purpose.Fetch}, false},
		"a check's manifests": {purpose.Purpose{Kind: purpose.Check, Document: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(roundTrip(func(req *http.Request) (*http.Response, error) {
					select {
					case <-time.After(2 * documentTimeout):
						return answer(req, http.StatusOK, ""), nil
					case <-req.Context().Done():
						return nil, req.Context().Err()
					}
				}))
				breakers := health.New()
				defer breakers.Close()
				test.p.Health = breakers.View(nil)
				start := time.Now()
				_, err := send(t.Context(), t, c.Registry(nil), test.p)
				if !test.slow {
					if err != nil {
						t.Error(err)
					}
					return
				}
				f := wantFault(t, err, failure.Unreachable)
				if elapsed := time.Since(start); elapsed != documentTimeout || f.Temporary || !test.p.Health.Blocked(key, 0) {
					t.Errorf("after %v: %+v", elapsed, f)
				}
			})
		})
	}
}
