// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const address = "http://registry.test"

var key = health.KeyOf("http", "registry.test")

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answer(req *http.Request, code int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: req}
}

func answering(code int, header ...string) roundTrip {
	return func(req *http.Request) (*http.Response, error) { return answer(req, code, "", header...), nil }
}

func failing(err error) roundTrip {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// config is for a host with that transport.
func config(base http.RoundTripper) Config {
	return Config{Host: "registry.test", Key: key, Root: address + "/v2/", API: address + "/v2/", Base: base, Redactor: &redact.Redactor{}}
}

// send sends a request to registry.test, closes the answer and returns the request
// that it is said to be for.
func send(ctx context.Context, t *testing.T, rt http.RoundTripper, p purpose.Purpose) (*http.Request, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(purpose.With(ctx, p), http.MethodGet, address+"/v2/x?secret=y", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	return resp.Request, nil
}

// wantFault fails unless err is a fault of that class, which names the request
// without its query.
func wantFault(t *testing.T, err error, class failure.Class) *fault.Fault {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || f.Class != class {
		t.Fatalf("got %v, want a fault of class %s", err, class)
	}
	if text := f.Error(); !strings.HasPrefix(text, "GET http://registry.test/v2/x: ") || strings.Contains(text, "secret") {
		t.Errorf("got text %q", text)
	}
	return f
}
