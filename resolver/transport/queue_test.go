// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/pool"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// Waiting for a connection that others use, or make, is nothing that the host does.
func TestWaitingMakesNobodySuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breakers := health.New()
		defer breakers.Close()
		over := make(chan struct{}) // dials do not end with their requests
		key := health.KeyOf("https", "registry.test")
		c := config(pool.New(&http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				<-over
				return nil, net.ErrClosed
			},
		}))
		c.Key = key
		c.Probe = roundTrip(func(*http.Request) (*http.Response, error) {
			t.Error("it is probed")
			return nil, errors.New("no")
		})
		check := func(ctx context.Context, view *health.View) error {
			return head(purpose.With(ctx, purpose.Purpose{Kind: purpose.Check, Health: view}), c, "https://registry.test/v2/x")
		}
		hanging, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- check(hanging, nil) }() // it makes the first connection
		synctest.Wait()
		view := breakers.View(nil)
		ctx, cancel := context.WithCancelCause(t.Context()) // of a deadline it would wait for half
		time.AfterFunc(2*patience-time.Millisecond, func() { cancel(ErrBudget) })
		if err := check(ctx, view); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if view.Blocked(key, 0) {
			t.Error("the host is left alone")
		}
		end()
		<-ended
		close(over)
		synctest.Wait()
	})
}

// A repository that hangs leaves others time for their answer, however little they have.
func TestHangingRepositoryLeavesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		connections := pool.New(&http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				own, other := net.Pipe()
				go serveUntil(over, other)
				return own, nil
			},
		})
		c := config(connections)
		check := func(ctx context.Context, path string) error {
			return head(purpose.With(ctx, purpose.Purpose{Kind: purpose.Check, Last: true}), c, "http://registry.test"+path)
		}
		hanging, end := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { _ = check(hanging, "/hangs") })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, ErrBudget)
		defer cancel()
		if err := check(ctx, "/well"); err != nil {
			t.Errorf("got %v", err)
		}
		end()
		all.Wait()
		close(over)
		connections.CloseIdleConnections()
		synctest.Wait()
	})
}

// serveUntil answers all requests on a connection but those that hang.
func serveUntil(over <-chan struct{}, c net.Conn) {
	defer c.Close()
	for r := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.URL.Path == "/hangs" {
			<-over
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// head sends a request with a context and returns its failure.
func head(ctx context.Context, c Config, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Registry(nil).RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}
