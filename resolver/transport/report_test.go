// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
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

// Each event says something, or nothing, about the host: how many in a row put it
// into trouble.
func TestReports(t *testing.T) {
	mute := roundTrip(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	for name, test := range map[string]struct {
		rt    roundTrip
		cause error // the context ends after a second for that; nil = it does not
		opens int   // after so many requests; 0 = never
		class failure.Class
	}{
		"200":                        {answering(200), nil, 0, failure.None},
		"404":                        {answering(404), nil, 0, failure.None},
		"408":                        {answering(408), nil, 0, failure.None},
		"304":                        {answering(304), nil, 0, failure.None},
		"503":                        {answering(503), nil, health.BreakAfter, failure.Unavailable},
		"429":                        {answering(429), nil, 1, failure.RateLimited},
		"timed out":                  {failing(os.ErrDeadlineExceeded), nil, 1, failure.Unreachable},
		"refused":                    {failing(syscall.ECONNREFUSED), nil, 0, failure.None},
		"refused, after a while":     {after(patience, failing(syscall.EHOSTUNREACH)), nil, 1, failure.Unreachable},
		"hangs up":                   {failing(io.EOF), nil, 0, failure.None},
		"nonsense":                   {failing(errors.New("nonsense")), nil, 0, failure.None},
		"its time is up":             {mute, ErrBudget, 1, failure.Unreachable},
		"the caller has left":        {mute, context.Canceled, 0, failure.None},
		"the caller's time is up":    {mute, context.DeadlineExceeded, 0, failure.None},
		"429, and the time is up":    {after(2*time.Second, answering(429)), ErrBudget, 1, failure.RateLimited},
		"refused as the caller goes": {after(2*time.Second, failing(syscall.ECONNREFUSED)), context.Canceled, 0, failure.None},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(test.rt)
				for n := 1; n <= 2*health.BreakAfter && !c.Health.Blocked(key); n++ {
					ctx, cancel := context.WithCancelCause(t.Context())
					if test.cause != nil {
						time.AfterFunc(time.Second, func() { cancel(test.cause) })
					}
					_, _ = send(ctx, t, c.Registry(nil), purpose.Purpose{Kind: purpose.Check})
					cancel(nil)
					if open := c.Health.Blocked(key); open != (n == test.opens) {
						t.Errorf("after %d requests, in trouble: %v", n, open)
					}
				}
				if test.opens > 0 && c.Health.States()[0].Class != test.class {
					t.Errorf("got %+v", c.Health.States())
				}
			})
		})
	}
}
