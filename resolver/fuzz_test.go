// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

const manifestType = "Content-Type: " + ocispec.MediaTypeImageManifest + "\r\n"

// answerSeeds are answers as they come from a connection.
var answerSeeds = []struct {
	status  int
	headers string
	body    string
}{
	{200, manifestType + digestHeader + ": " + manifestDigest.String() + "\r\nContent-Length: 77\r\n", string(manifest)},
	{200, manifestType, string(manifest)},
	{200, manifestType + digestHeader + ": " + otherDigest.String(), string(manifest)},
	{200, manifestType + digestHeader + ": sha512:" + strings.Repeat("a", 128), string(manifest)},
	{200, "Content-Type: text/html", "<html>"},
	{200, "Content-Length: -1", ""},
	{401, `WWW-Authenticate: Bearer realm="http://auth.test/?secret=` + password + `",scope="a b",error="invalid_token"`, ""},
	{401, `WWW-Authenticate: Basic realm="x"`, ""},
	{401, `WWW-Authenticate: Bearer realm="::"`, ""},
	{302, "Location: http://user:spaced password@other.test/?a=b", ""},
	{302, "Location: http://user:password@other.test/?a=b", ""},
	{302, "Location: %zz", ""},
	{403, "", `{"errors":[{"code":"DENIED","message":"` + password + `"}]}`},
	{405, "Allow: GET", ""},
	{429, "Retry-After: 3", ""},
	{503, "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT", ""},
	{0, "", ""},
	{700, "X", "\x00\xff"},
}

// A check ends, with a class or with a digest that the answer really has, and
// repeats no secret, whatever a registry and its token server answer.
func FuzzFailureAnswer(f *testing.F) {
	for _, seed := range answerSeeds {
		f.Add(seed.status, seed.headers, seed.body, seed.status, seed.headers, seed.body)
	}
	f.Fuzz(func(t *testing.T, headStatus int, headHeaders, headBody string, getStatus int, getHeaders, getBody string) {
		synctest.Test(t, func(t *testing.T) {
			requests, bodies := 0, []string{}
			s := open(t, fakeOptions(besideProbes(func(req *http.Request) (*http.Response, error) {
				requests++
				if req.Method == http.MethodHead {
					return fuzzed(req, headStatus, headHeaders, "")
				}
				if req.Method == http.MethodPost {
					return fuzzed(req, headStatus, headHeaders, headBody)
				}
				bodies = append(bodies, getBody)
				return fuzzed(req, getStatus, getHeaders, getBody)
			}), "mirror.test", registryName), Query{Credentials: alice})

			got, err := s.Resolve(t.Context(), 10*time.Second)
			if requests > 200 {
				t.Errorf("%d requests", requests)
			}
			if err == nil {
				checkAnswer(t, got, headHeaders+"\r\n"+getHeaders, bodies)
				return
			}
			e := new(Error)
			if !errors.As(err, &e) || !slices.Contains(failure.All(), e.Class) || len(e.Attempts) != 2 {
				t.Fatalf("got %#v", err)
			}
			text := e.Error()
			known := strings.Contains(headHeaders+headBody+getHeaders+getBody, password)
			if !known && strings.Contains(text, password) || strings.Contains(text, "\n") || !utf8.ValidString(text) || len(text) > 4*redact.MaxText {
				t.Errorf("got %q", text)
			}
			for _, a := range e.Attempts {
				if !slices.Contains(failure.All(), a.Class) || a.Err == nil || a.Elapsed < 0 || a.Elapsed > 10*time.Second {
					t.Errorf("got %+v", a)
				}
			}
		})
	})
}

// checkAnswer fails unless the digest is one that a header promised, or that
// of a body.
func checkAnswer(t *testing.T, got Resolution, headers string, bodies []string) {
	t.Helper()
	d := got.Descriptor.Digest
	if err := d.Validate(); err != nil {
		t.Fatalf("got digest %q: %v", d, err)
	}
	if err := new(examiner).checkMediaType(got.Descriptor.MediaType, false); err != nil {
		t.Error(err)
	}
	of := func(body string) bool {
		for n := range len(body) { // its length may be less
			if part := body[:n+1]; d.Algorithm().FromString(part) == d || digest.FromString(part) == d {
				return true
			}
		}
		return false
	}
	if !strings.Contains(headers, d.String()) && !slices.ContainsFunc(bodies, of) {
		t.Errorf("nobody promised %s", d)
	}
}

// fuzzed is an answer as net/http would read it from a connection.
func fuzzed(req *http.Request, status int, headers, body string) (*http.Response, error) {
	text := fmt.Sprintf("HTTP/1.1 %03d scripted\r\n%s\r\n\r\n%s", status, strings.Trim(headers, "\r\n"), body)
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), req)
	if err != nil {
		return nil, err
	}
	if data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20)); err == nil {
		resp.Body = io.NopCloser(bytes.NewReader(data))
	}
	return resp, nil
}
