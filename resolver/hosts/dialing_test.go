// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// A Dialing is late in what a request waits for now, and says so once; not in the handshakes of a host with a
// dial_timeout, or of one that is asked in clear where TLS does not come.
func TestDialing(t *testing.T) {
	dial := shorten(func(context.Context, string, string) (net.Conn, error) {
		time.Sleep(2 * ShortDial)
		c, _ := net.Pipe()
		return c, nil
	})
	for name, tc := range map[string]struct {
		dials bool // not by a dial_timeout
		with  func(context.Context) context.Context
		late  bool // in its handshake
	}{
		"as all hosts are dialled":   {true, func(ctx context.Context) context.Context { return ctx }, true},
		"with a dial_timeout":        {false, func(ctx context.Context) context.Context { return ctx }, false},
		"that is asked in clear":     {true, withPatientTLS, false},
		"where it is hurried anyway": {false, WithShortDial, false},
		"where its dial alone is":    {true, WithShortDialAlone, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told atomic.Int32
				d := NewDialing(func() { told.Add(1) })
				ctx := tc.with(d.With(t.Context()))
				trace := httptrace.ContextClientTrace(ctx)
				trace.GetConn("registry.test:443")
				want := int32(0)
				if tc.dials {
					made := make(chan net.Conn)
					go func() {
						c, _ := dial(ctx, "tcp", "registry.test:443")
						made <- c
					}()
					time.Sleep(ShortDial + time.Millisecond)
					if want++; !fault.DialTimedOut(d.Late()) || told.Load() != want {
						t.Errorf("of the dial: %v, told %d times", d.Late(), told.Load())
					}
					defer func(c net.Conn) { _ = c.Close() }(<-made)
					if d.Late() != nil {
						t.Errorf("once it is dialled: %v", d.Late())
					}
				}
				trace.TLSHandshakeStart()
				time.Sleep(shortHandshake + time.Millisecond)
				if tc.late {
					want++
				}
				if fault.HandshakeTimedOut(d.Late()) != tc.late || told.Load() != want {
					t.Errorf("of TLS: %v, told %d times", d.Late(), told.Load())
				}
				if trace.TLSHandshakeDone(tls.ConnectionState{}, nil); d.Late() != nil {
					t.Errorf("with TLS: %v", d.Late())
				}
				trace.GotConn(httptrace.GotConnInfo{})
				d.begin(fault.Handshake, shortHandshake) // of a connection that was not waited for
				if time.Sleep(2 * shortHandshake); d.Late() != nil {
					t.Errorf("on a connection: %v", d.Late())
				}
			})
		})
	}
}

// Who gives a connection its second dial has 8 s for it, of which those count that the dial has lasted since it was waited for;
// whoever comes to it is told.
func TestDialingOfASecondDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int32
		d := NewDialing(func() { told.Add(1) })
		early := time.Now()
		time.Sleep(SecondDial) // for somebody else
		began := time.Now()
		d.begin("dial", ShortDial)
		for _, at := range []struct {
			after      time.Duration
			told       int32
			late, join bool // of who came before, and three seconds after it began
		}{
			{ShortDial, 1, false, false},
			{SecondDial - time.Second, 1, false, false},
			{SecondDial, 2, true, false},
			{SecondDial + 3*time.Second, 5, true, true},
		} {
			time.Sleep(time.Until(began.Add(at.after + time.Millisecond)))
			if late := fault.DialTimedOut(d.LateAgain(early)); late != at.late || told.Load() != at.told {
				t.Errorf("after %v: %v, told %d times", at.after, d.LateAgain(early), told.Load())
			}
			if late := fault.DialTimedOut(d.LateAgain(began.Add(3 * time.Second))); late != at.join {
				t.Errorf("after %v, of who came to it: %v", at.after, late)
			}
		}
		d.begin(fault.Handshake, shortHandshake)
		if time.Sleep(2 * SecondDial); d.LateAgain(early) != nil {
			t.Errorf("of TLS: %v", d.LateAgain(early))
		}
		if d.end(); d.LateAgain(early) != nil {
			t.Errorf("in the end: %v", d.LateAgain(early))
		}
	})
}

// A dial alone may be given up early, which is then followed by no bound for TLS, be there a Dialing or none.
func TestShortDialAlone(t *testing.T) {
	swallow := shorten(func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	connect := shorten(func(context.Context, string, string) (net.Conn, error) {
		c, _ := net.Pipe()
		return c, nil
	})
	for name, with := range map[string]func(context.Context) context.Context{
		"nobody is told":         func(ctx context.Context) context.Context { return ctx },
		"a Dialing is":           NewDialing(func() {}).With,
		"it was hurried already": WithShortDial,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := WithShortDialAlone(with(t.Context()))
				for _, ctx := range []context.Context{ctx, withPatientTLS(ctx)} {
					began := time.Now()
					if _, err := swallow(ctx, "tcp", "registry.test:443"); err == nil || time.Since(began) != ShortDial {
						t.Errorf("the dial was given up after %v: %v", time.Since(began), err)
					}
				}
				c, err := connect(ctx, "tcp", "registry.test:443")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = c.Close() }()
				httptrace.ContextClientTrace(ctx).TLSHandshakeStart()
				if hurried, ok := c.(*hurriedConn); !ok || hurried.hurried.Load() {
					t.Errorf("TLS is bounded, or nobody could: %T", c)
				}
			})
		})
	}
}
