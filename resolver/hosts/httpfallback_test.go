// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"crypto/tls"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// schemes notes by which schemes a host was asked, and answers by each.
type schemes struct {
	asked   []string
	byHTTPS error  // nil = it has TLS
	leadsTo string // in clear; empty for nowhere
}

func (s *schemes) RoundTrip(req *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, req.URL.Scheme)
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: req, Body: http.NoBody}
	switch {
	case req.URL.Scheme == "https" && s.byHTTPS != nil:
		return nil, s.byHTTPS
	case req.URL.Scheme == "http" && s.leadsTo != "":
		resp.StatusCode = http.StatusMovedPermanently
		resp.Header.Set("Location", s.leadsTo)
	}
	return resp, nil
}

// A host that had no TLS for a moment is asked by TLS again: at once where it leads to that, and after a minute where nobody listened at
// port 443. One at another port, which has answered in clear there, is asked so until it answers no more.
func TestFallbackIsNotForGood(t *testing.T) {
	noTLS := tls.RecordHeaderError{Msg: "no TLS", RecordHeader: [5]byte{'H', 'T', 'T', 'P', '/'}}
	for name, test := range map[string]struct {
		host, leadsTo     string
		byHTTPS           error
		atOnce, afterThat []string
	}{
		"port 443 refuses":                {"registry.test", "", syscall.ECONNREFUSED, []string{"http"}, []string{"https"}},
		"of an address":                   {"[2001:db8::1]", "", syscall.ECONNREFUSED, []string{"http"}, []string{"https"}},
		"port 80 leads to HTTPS":          {"registry.test", "https://registry.test/v2/", syscall.ECONNREFUSED, []string{"https"}, []string{"https"}},
		"port 80 leads elsewhere":         {"registry.test", "https://storage.test/v2/", syscall.ECONNREFUSED, []string{"http"}, []string{"https"}},
		"another port answers in clear":   {"registry.test:5000", "", noTLS, []string{"http"}, []string{"http"}},
		"another port leads to its HTTPS": {"registry.test:5000", "https://registry.test:5000/v2/", noTLS, []string{"https"}, []string{"https"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &schemes{byHTTPS: test.byHTTPS, leadsTo: test.leadsTo}
				f := &httpFallback{base: s, host: test.host}
				ask := func() []string {
					s.asked = nil
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+test.host+"/v2/", http.NoBody)
					if err != nil {
						t.Fatal(err)
					}
					resp, err := f.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					_ = resp.Body.Close()
					return s.asked
				}
				if asked := ask(); !slices.Equal(asked, []string{"https", "http"}) {
					t.Fatalf("without TLS it was asked by %v", asked)
				}
				s.byHTTPS, s.leadsTo = nil, ""
				if asked := ask(); !slices.Equal(asked, test.atOnce) {
					t.Errorf("at once it is asked by %v, want %v", asked, test.atOnce)
				}
				time.Sleep(2 * maxInClear)
				if asked := ask(); !slices.Equal(asked, test.afterThat) {
					t.Errorf("later it is asked by %v, want %v", asked, test.afterThat)
				}
			})
		})
	}
}
