// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// dialed are the addresses that were dialed, and when.
type dialed struct {
	began time.Time
	takes map[string]time.Duration // until there is a connection; others swallow what they are sent
	fails map[string]error

	mu   sync.Mutex
	at   map[string]time.Duration
	open int // connections
}

func (d *dialed) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	d.at[address] = time.Since(d.began)
	d.mu.Unlock()
	if err := d.fails[address]; err != nil {
		return nil, err
	}
	var there <-chan time.Time
	if takes, ok := d.takes[address]; ok {
		there = time.After(takes)
	}
	select {
	case <-there:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open++
		return &counted{d: d}, nil
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
}

// counted is a connection of which it is known whether it is open.
type counted struct {
	net.Conn
	d *dialed
}

func (c *counted) Close() error {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.open--
	return nil
}

func addresses(texts ...string) lookupFunc {
	return func(context.Context, string, string) (all []netip.Addr, err error) {
		for _, text := range texts {
			all = append(all, netip.MustParseAddr(text))
		}
		return all, nil
	}
}

func TestEachAddress(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

	for name, tc := range map[string]struct {
		lookup lookupFunc
		takes  map[string]time.Duration
		fails  map[string]error
		took   time.Duration
		err    error
		at     map[string]time.Duration // the addresses that are dialed, and when
	}{
		"the first answers": {
			addresses("10.0.0.1", "10.0.0.2"), map[string]time.Duration{"10.0.0.1:443": 10 * ms}, nil, 10 * ms, nil,
			map[string]time.Duration{"10.0.0.1:443": 0},
		},
		"three swallow": {
			addresses("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"), map[string]time.Duration{"10.0.0.4:443": 10 * ms}, nil, 760 * ms, nil,
			map[string]time.Duration{"10.0.0.1:443": 0, "10.0.0.2:443": 250 * ms, "10.0.0.3:443": 500 * ms, "10.0.0.4:443": 750 * ms},
		},
		"the first fails": {
			addresses("10.0.0.1", "10.0.0.2"), map[string]time.Duration{"10.0.0.2:443": 10 * ms}, map[string]error{"10.0.0.1:443": refused}, 10 * ms, nil,
			map[string]time.Duration{"10.0.0.1:443": 0, "10.0.0.2:443": 0},
		},
		"the second is faster": {
			addresses("10.0.0.1", "10.0.0.2"), map[string]time.Duration{"10.0.0.1:443": 300 * ms, "10.0.0.2:443": 10 * ms}, nil, 260 * ms, nil,
			map[string]time.Duration{"10.0.0.1:443": 0, "10.0.0.2:443": 250 * ms},
		},
		"both come": {
			addresses("10.0.0.1", "10.0.0.2"), map[string]time.Duration{"10.0.0.1:443": 260 * ms, "10.0.0.2:443": 10 * ms}, nil, 260 * ms, nil,
			map[string]time.Duration{"10.0.0.1:443": 0, "10.0.0.2:443": 250 * ms},
		},
		"families take turns": {
			addresses("fd00::1", "fd00::2", "::ffff:10.0.0.1"), map[string]time.Duration{"10.0.0.1:443": 10 * ms}, nil, 260 * ms, nil,
			map[string]time.Duration{"[fd00::1]:443": 0, "10.0.0.1:443": 250 * ms},
		},
		"all fail": {
			addresses("10.0.0.1", "10.0.0.2"), nil, map[string]error{"10.0.0.1:443": refused, "10.0.0.2:443": errors.New("other")}, 0, syscall.ECONNREFUSED,
			map[string]time.Duration{"10.0.0.1:443": 0, "10.0.0.2:443": 0},
		},
		"all swallow": {
			addresses("10.0.0.1", "10.0.0.2"), nil, nil, time.Second, context.DeadlineExceeded,
			map[string]time.Duration{"10.0.0.1:443": 0, "10.0.0.2:443": 250 * ms},
		},
		"no such name": {
			func(context.Context, string, string) ([]netip.Addr, error) {
				return nil, &net.DNSError{IsNotFound: true}
			},
			nil, nil, 0, &net.DNSError{IsNotFound: true}, map[string]time.Duration{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &dialed{began: time.Now(), takes: tc.takes, fails: tc.fails, at: map[string]time.Duration{}}
				d.want(t, tc.lookup, tc.took, tc.err, tc.at)
			})
		})
	}
}

// want fails unless a dial takes that time and ends so, and dials those addresses.
func (d *dialed) want(t *testing.T, lookup lookupFunc, took time.Duration, want error, at map[string]time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	c, err := eachAddress(newLookups(lookup, &dialer{}), d.dial)(ctx, "tcp", "registry.test:443")
	if elapsed := time.Since(d.began); elapsed != took || (err == nil) != (want == nil) {
		t.Errorf("after %v: %v", elapsed, err)
	}
	if _, notFound := errors.AsType[*net.DNSError](want); want != nil && !notFound && !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	time.Sleep(time.Second)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.at) != len(at) || d.open != map[bool]int{true: 1}[c != nil] {
		t.Errorf("dialed are %v, want %v; %d connections are open", d.at, at, d.open)
	}
	for address, want := range at {
		if got, ok := d.at[address]; !ok || got != want {
			t.Errorf("%s is dialed after %v (%v), want %v", address, got, ok, want)
		}
	}
}

// A name with many addresses that swallow what they are sent has few of them dialed at a time.
func TestManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make([]string, 200)
		for i := range all {
			all[i] = netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}).String()
		}
		d := &dialed{began: time.Now(), at: map[string]time.Duration{}}
		if _, err := eachAddress(newLookups(addresses(all...), &dialer{}), d.dial)(t.Context(), "tcp", "registry.test:443"); err == nil {
			t.Error("there is a connection")
		}
		if took := time.Since(d.began); took != dialTime || len(d.at) != maxAttempts {
			t.Errorf("after %v, %d addresses were dialed", took, len(d.at))
		}
	})
}

// An address needs no lookup.
func TestEachAddressOfAnAddress(t *testing.T) {
	for _, address := range []string{"10.0.0.1:443", "[fd00::1]:443"} {
		d := &dialed{fails: map[string]error{address: syscall.ECONNREFUSED}, at: map[string]time.Duration{}}
		lookup := func(context.Context, string, string) ([]netip.Addr, error) {
			t.Error("it is looked up")
			return nil, nil
		}
		if _, err := eachAddress(newLookups(lookup, &dialer{}), d.dial)(t.Context(), "tcp", address); !errors.Is(err, syscall.ECONNREFUSED) || len(d.at) != 1 {
			t.Errorf("%s: %v, dialed are %v", address, err, d.at)
		}
	}
}
