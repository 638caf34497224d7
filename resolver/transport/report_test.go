// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// after fails, or answers, after a while.
func after(d time.Duration, rt roundTrip) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		time.Sleep(d)
		return rt(req)
	}
}

// silence is how a host is that does not answer.
var silence = roundTrip(func(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
})

// Each event says something, or nothing, about the host: to the session, after how many
// in a row, and as a reason to probe it.
func TestReports(t *testing.T) {
	for name, test := range map[string]struct {
		rt     roundTrip
		cause  error // the context ends after a second for that; nil = it does not
		opens  int   // after so many requests the session leaves it alone; 0 = never
		class  failure.Class
		probed bool
	}{
		"200":                        {answering(200), nil, 0, failure.None, false},
		"404":                        {answering(404), nil, 0, failure.None, false},
		"408":                        {answering(408), nil, 0, failure.None, false},
		"304":                        {answering(304), nil, 0, failure.None, false},
		"503":                        {answering(503), nil, health.BreakAfter, failure.Unavailable, true},
		"429":                        {answering(429), nil, 1, failure.RateLimited, false},
		"timed out":                  {failing(os.ErrDeadlineExceeded), nil, 1, failure.Unreachable, true},
		"refused":                    {failing(syscall.ECONNREFUSED), nil, 0, failure.None, false},
		"refused, after a while":     {after(patience, failing(syscall.EHOSTUNREACH)), nil, 1, failure.Unreachable, true},
		"hangs up":                   {failing(io.EOF), nil, 0, failure.None, false},
		"nonsense":                   {failing(errors.New("nonsense")), nil, 0, failure.None, false},
		"its time is up":             {silence, ErrBudget, 1, failure.Unreachable, true},
		"the caller has left":        {silence, context.Canceled, 0, failure.None, true}, // since it was slow
		"the caller's time is up":    {silence, context.DeadlineExceeded, 0, failure.None, true},
		"429, and the time is up":    {after(2*time.Second, answering(429)), ErrBudget, 1, failure.RateLimited, true},
		"refused as the caller goes": {after(2*time.Second, failing(syscall.ECONNREFUSED)), context.Canceled, 0, failure.None, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				breakers := health.New()
				defer breakers.Close()
				probes := 0
				c := config(test.rt)
				c.Probe = roundTrip(func(req *http.Request) (*http.Response, error) {
					probes++
					return answering(http.StatusUnauthorized)(req)
				})
				view := breakers.View(nil)
				for n := 1; n <= 2*health.BreakAfter && !view.Blocked(key, 0); n++ {
					ctx, cancel := context.WithCancelCause(t.Context())
					if test.cause != nil {
						time.AfterFunc(time.Second, func() { cancel(test.cause) })
					}
					_, _ = send(ctx, t, c.Registry(nil), purpose.Purpose{Kind: purpose.Check, Health: view})
					cancel(nil)
					if open := view.Blocked(key, 0); open != (n == test.opens) {
						t.Errorf("after %d requests, left alone: %v", n, open)
					}
					synctest.Wait()
				}
				if test.opens > 0 && view.Trouble(key, 0).Class != test.class {
					t.Errorf("got %+v", view.Trouble(key, 0))
				}
				if breakers.Blocked(key) || (probes > 0) != test.probed {
					t.Errorf("%d probes, in trouble for all: %v", probes, breakers.Blocked(key))
				}
			})
		})
	}
}

// What fails at once, and is no answer, ends neither a trouble nor a limit, of the session, its scope or all. An
// answer does, be it a refusal.
func TestNoAnswerEndsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		rt   roundTrip
		ends bool
	}{
		"refused":                {failing(syscall.ECONNREFUSED), false},
		"hangs up":               {failing(io.EOF), false},
		"no trusted host":        {failing(x509.UnknownAuthorityError{}), false},
		"401":                    {answering(http.StatusUnauthorized), true},
		"404":                    {answering(http.StatusNotFound), true},
		"304, which is no sense": {answering(http.StatusNotModified), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				breakers := health.New()
				defer breakers.Close()
				view := breakers.View(nil)
				view.Failed(key, func(context.Context) health.Verdict { return health.Verdict{Class: failure.Unavailable} }, health.Failure{Class: failure.Unavailable})
				view.Failed(key, nil, health.Failure{Class: failure.RateLimited, RetryAfter: time.Minute})
				synctest.Wait()
				_, _ = send(t.Context(), t, config(test.rt).Registry(nil), purpose.Purpose{Kind: purpose.Check, Last: true, Health: view})
				if all, own := breakers.Blocked(key), view.Blocked(key, 0); all == test.ends || own == test.ends {
					t.Errorf("in trouble for all: %v, left alone: %v", all, own)
				}
			})
		})
	}
}
