// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// silent fails after the request was sent, without a byte of an answer.
func silent(err error) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(req.Context()).WroteHeaders()
		return nil, err
	}
}

// Each answer that is none has a class, and is temporary or not.
func TestClassify(t *testing.T) {
	for name, test := range map[string]struct {
		rt        roundTrip
		class     failure.Class // None = it is an answer
		temporary bool
		after     time.Duration
		status    int
		says      string
	}{
		"200":                  {rt: answering(200)},
		"401":                  {rt: answering(401)},
		"404":                  {rt: answering(404)},
		"302":                  {rt: answering(302, "Location", "/elsewhere")},
		"302 without a target": {answering(302), failure.Invalid, false, 0, 302, "302 Found makes no sense"},
		"302 to no host":       {answering(302, "Location", "http:/elsewhere"), failure.Invalid, false, 0, 302, "302 Found makes no sense"},
		"302 to no URL":        {answering(302, "Location", "%zz"), failure.Invalid, false, 0, 302, "302"},
		"304":                  {answering(304), failure.Invalid, false, 0, 304, "makes no sense"},
		"101":                  {answering(101), failure.Invalid, false, 0, 101, "makes no sense"},
		"429":                  {answering(429, "Retry-After", "7"), failure.RateLimited, true, 7 * time.Second, 429, "429 Too Many Requests"},
		"503": {func(req *http.Request) (*http.Response, error) {
			return answer(req, 503, `{"errors":[{"code":"DOWN","message":"at night"}]}`), nil
		}, failure.Unavailable, true, 0, 503, "503 Service Unavailable: DOWN: at night"},
		"EOF":              {failing(io.EOF), failure.Unreachable, true, 0, 0, "EOF"},
		"refused":          {failing(syscall.ECONNREFUSED), failure.Unreachable, false, 0, 0, "refused"},
		"silence":          {silent(errors.New("closed")), failure.Unreachable, true, 0, 0, "closed"},
		"a silent timeout": {silent(os.ErrDeadlineExceeded), failure.Unreachable, false, 0, 0, "timeout"},
		"nonsense":         {failing(errors.New("nonsense")), failure.Invalid, false, 0, 0, "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			answered, err := send(t.Context(), t, config(test.rt).Registry(nil), purpose.Purpose{})
			if test.class == failure.None {
				if err != nil || answered == nil {
					t.Errorf("got %v", err)
				}
				return
			}
			f := wantFault(t, err, test.class)
			if f.Temporary != test.temporary || f.RetryAfter != test.after || f.Status != test.status || !strings.Contains(f.Error(), test.says) {
				t.Errorf("got %+v", f)
			}
		})
	}
}

// The end of the caller's context stays what it is.
func TestClassifyLeavesTheContextsError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	rt := config(roundTrip(func(*http.Request) (*http.Response, error) {
		cancel()
		return nil, io.EOF
	})).Registry(nil)
	if _, err := send(ctx, t, rt, purpose.Purpose{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A relative redirect is followed unless it leaves out the end of a secret of which it keeps the
// beginning in the path: in other parts of a URL nobody tells that.
func TestRelativeRedirectsAreFollowed(t *testing.T) {
	var secrets redact.Redactor
	secrets.Add("summer/more", "summer?more", "summer#more", "summer?#more", "signature/x")
	for asked, locations := range map[string]map[string]bool{
		"/a/b?signature/x#f": {"": false, "?z": true, "#z": true, "?signature/y": true, "c": true, "..": true, "/a/b?z": true},
		"/summer?more":       {"?z": false, "?more": true, "?more&z": true, "?mor": false, "c": true, "/a": true},
		"/summer#more":       {"?z": false, "#z": false, "c": true, "/a": true, "//b.test/": true},
		"/summer?#more":      {"?z": false, "#z": false, "?#z": false, "?": false, "c": true},
		"/summer/more":       {"c": false, "../c": true, ".": false, "?z": true, "#z": true, "/c": true, "more/c": true},
		"/summer/more?z":     {"#y": true, "?y": true, "more?y": true, "c?z": false},
	} {
		for location, want := range locations {
			u, err := url.Parse("http://a.test" + asked)
			if err != nil {
				t.Fatal(err)
			}
			resp := &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {location}}, Request: &http.Request{URL: u}}
			if got := follows(resp, secrets.Texts(), secrets.Texts()); got != want {
				t.Errorf("%s, then %s: followed %v", asked, location, got)
			}
		}
	}
}
