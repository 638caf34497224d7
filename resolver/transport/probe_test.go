// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// failAndProbe lets a request fail by a time-out, and returns what is known to all of
// its host then.
func failAndProbe(t *testing.T, c Config) (open health.State) {
	t.Helper()
	breakers := health.New()
	defer breakers.Close()
	c.Base = failing(os.ErrDeadlineExceeded)
	_, err := send(t.Context(), t, c.Registry(nil), purpose.Purpose{Kind: purpose.Check, Health: breakers.View(nil)})
	wantFault(t, err, failure.Unreachable)
	time.Sleep(health.ProbeTime)
	synctest.Wait()
	for _, s := range breakers.States() {
		open = s
	}
	return open
}

// Any answer that makes sense says that a host is well, and so does a failure that
// costs nothing.
func TestProbes(t *testing.T) {
	for name, test := range map[string]struct {
		probe roundTrip
		class failure.Class
	}{
		"200":              {answering(200), failure.None},
		"a redirect":       {answering(302, "Location", "http://elsewhere.test/"), failure.None},
		"401":              {answering(401), failure.None},
		"403":              {answering(403), failure.None},
		"404":              {answering(404), failure.None},
		"408":              {answering(408), failure.None},
		"429":              {answering(429), failure.None}, // the node's anonymous quota
		"500":              {answering(500), failure.Unavailable},
		"501":              {answering(501), failure.None}, // it knows no GET
		"503":              {answering(503), failure.Unavailable},
		"silent":           {silence, failure.Unreachable},
		"timed out":        {failing(os.ErrDeadlineExceeded), failure.Unreachable},
		"refused":          {failing(syscall.ECONNREFUSED), failure.None},
		"hangs up":         {failing(io.EOF), failure.None},
		"hangs up, slowly": {after(time.Second, failing(io.EOF)), failure.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(nil)
				var seen []*http.Request
				c.Headers = []http.Header{{"User-Agent": {"test"}}, {"X-Proxy": {"node"}}}
				c.Probe = roundTrip(func(req *http.Request) (*http.Response, error) {
					seen = append(seen, req)
					return test.probe(req)
				})
				open := failAndProbe(t, c)
				if open.Class != test.class || open.Open != (test.class != failure.None) {
					t.Errorf("got %+v", open)
				}
				if len(seen) != 1 || seen[0].URL.String() != c.Root || seen[0].Method != http.MethodGet ||
					seen[0].Header.Get("X-Proxy") != "node" || seen[0].Header.Get("User-Agent") != "test" || seen[0].Header.Get("Authorization") != "" {
					t.Errorf("got %d probes: %+v", len(seen), seen)
				}
			})
		})
	}
}

// A host that is silent for long in one step of a probe has come back meanwhile; one that is as slow in all
// steps together is far away.
func TestSlowProbes(t *testing.T) {
	const long, short = health.MaxWait + time.Millisecond, health.MaxWait - time.Millisecond
	for name, test := range map[string]struct {
		connect, answer time.Duration
		code            int
		recovered       bool
	}{
		"quick":                 {0, 0, 200, false},
		"far away":              {short, short, 401, false},
		"limited, and far away": {short, short, 429, false},
		"connects late":         {long, 0, 200, true},
		"answers late":          {0, long, 200, true},
		"is late, and limited":  {0, long, 429, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(nil)
				c.Probe = roundTrip(func(req *http.Request) (*http.Response, error) {
					time.Sleep(test.connect)
					httptrace.ContextClientTrace(req.Context()).ConnectDone("tcp", "", nil)
					return after(test.answer, answering(test.code))(req)
				})
				if v := newProber(c).registry(t.Context()); v != (health.Verdict{Recovered: test.recovered}) {
					t.Errorf("got %+v", v)
				}
			})
		})
	}
}

// Each request of a probe has its time for each step, and the end of the whole is no verdict, unless the host was silent.
func TestProbesThatEnd(t *testing.T) {
	const step = health.ProbeTime - time.Millisecond
	for name, test := range map[string]struct {
		bound time.Duration
		steps int
		class failure.Class
	}{
		"in time":                {time.Hour, 5, failure.None},
		"in the middle of steps": {4 * step, 5, failure.None},
		"in the middle of one":   {step / 2, 1, failure.None},
		"by silence":             {time.Hour, 0, failure.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(nil)
				c.Probe = roundTrip(func(req *http.Request) (*http.Response, error) {
					trace := httptrace.ContextClientTrace(req.Context())
					for range test.steps {
						select {
						case <-time.After(step):
							trace.ConnectDone("tcp", "", nil)
						case <-req.Context().Done():
							return nil, req.Context().Err()
						}
					}
					if test.steps == 0 {
						return silence(req)
					}
					return answer(req, 200, ""), nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), test.bound)
				defer cancel()
				if v := newProber(c).registry(ctx); v.Class != test.class {
					t.Errorf("got %+v", v)
				}
			})
		})
	}
}

// Only the token server that a registry itself names is probed on its behalf.
func TestProbesOfTokenServers(t *testing.T) {
	const challenge = `Bearer realm="http://auth.test/token?a=b",service="s"`
	for name, test := range map[string]struct {
		registry roundTrip
		class    failure.Class
		asked    []string
	}{
		"its own":           {answering(401, "WWW-Authenticate", challenge), failure.Unreachable, []string{address + "/v2/", "http://auth.test/token?a=b&service=s"}},
		"another":           {answering(401, "WWW-Authenticate", `Bearer realm="http://other.test/token"`), failure.None, []string{address + "/v2/"}},
		"none":              {answering(200), failure.None, []string{address + "/v2/"}},
		"Basic":             {answering(401, "WWW-Authenticate", `Basic realm="http://auth.test/token"`), failure.None, []string{address + "/v2/"}},
		"a silent registry": {silence, failure.None, []string{address + "/v2/"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				breakers := health.New()
				defer breakers.Close()
				c := config(failing(os.ErrDeadlineExceeded))
				c.Headers = []http.Header{{"X-Proxy": {"node"}}}
				var asked []string
				c.Probe = roundTrip(func(req *http.Request) (*http.Response, error) {
					asked = append(asked, req.URL.String())
					if req.URL.Host == "auth.test" {
						if req.Header.Get("X-Proxy") != "node" {
							t.Error("the headers are left out that requests for tokens have")
						}
						return silence(req)
					}
					return test.registry(req)
				})
				req, err := http.NewRequestWithContext(purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Check, Health: breakers.View(nil)}),
					http.MethodGet, "http://auth.test/token?scope=secret", nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp, err := c.Token().RoundTrip(req); err == nil {
					_ = resp.Body.Close()
					t.Fatal("no error")
				}
				time.Sleep(2 * health.ProbeTime)
				synctest.Wait()
				if !slices.Equal(asked, test.asked) {
					t.Errorf("asked %v, want %v", asked, test.asked)
				}
				tokens := health.Key{Host: "http://auth.test", For: key.Host, Tokens: true} // probed again for who asks about it
				if open := breakers.Trouble(tokens); (open != nil) != (test.class != failure.None) || breakers.Blocked(health.KeyOf("http", "auth.test")) {
					t.Errorf("got %v", open)
				}
			})
		})
	}
}

// A redirect's target is nobody's business but the session's.
func TestRedirectTargetsAreNotProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config(nil)
		c.Key = health.KeyOf("http", "elsewhere.test") // which led to registry.test
		c.Probe = roundTrip(func(*http.Request) (*http.Response, error) {
			t.Error("probed")
			return nil, io.EOF
		})
		if open := failAndProbe(t, c); open.Open {
			t.Errorf("got %+v", open)
		}
	})
}
