// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"net"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/pullwarden/pullwarden/resolver/pool"
)

const (
	// attemptDelay is the time from one address of a host to the next (RFC 8305, section 5): so four of them have
	// their turn within ShortDial.
	attemptDelay = 250 * time.Millisecond

	// maxAttempts is how many of them are dialed at a time.
	maxAttempts = 6

	// dialTime bounds a dial with all of its addresses, as containerd's own.
	dialTime = 30 * time.Second
)

// eachAddress dials the addresses of a host side by side, one a little later than the other, and takes the first
// connection: net.Dialer gives each address of a family a part of the time, 2 seconds or more, so that one which
// swallows packets takes all of a short dial. The error is that of the first address.
func eachAddress(names *lookups, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return dial(ctx, network, address)
		}
		if _, err := netip.ParseAddr(host); err == nil {
			return dial(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		// Else whoever has an address of before by now could be shown credentials.
		found, later, err := names.find(ctx, host, pool.Verified(ctx, address))
		if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.DNSDone != nil {
			trace.DNSDone(httptrace.DNSDoneInfo{Err: err})
		}
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		if len(found) == 0 {
			return dial(ctx, network, address)
		}
		s := staggered{dial: func(ctx context.Context, ip netip.Addr) (net.Conn, error) {
			return dial(ctx, network, net.JoinHostPort(ip.String(), port))
		}}
		s.renew(found)
		return s.connect(ctx, later)
	}
}

// alternate has the families take turns, beginning with that of the first address (RFC 8305, section 4).
func alternate(addresses []netip.Addr) []netip.Addr {
	var families [2][]netip.Addr
	for _, a := range addresses {
		a = a.Unmap()
		family := 0
		if len(families[0]) > 0 && families[0][0].Is4() != a.Is4() {
			family = 1
		}
		families[family] = append(families[family], a)
	}
	all := make([]netip.Addr, 0, len(addresses))
	for i := range addresses {
		for _, family := range families {
			if i < len(family) {
				all = append(all, family[i])
			}
		}
	}
	return all
}

// staggered dials addresses, of which there is one at least: the next when the one before it has failed, or has taken
// attemptDelay.
type staggered struct {
	dial func(context.Context, netip.Addr) (net.Conn, error)

	addresses    []netip.Addr
	begun, ended int // attempts
	attempts     chan attempt
	first        error

	former        int // attempts at addresses that a look-up has not found again
	formerOngoing int // of them
}

// attempt is what has come of one.
type attempt struct {
	conn net.Conn
	err  error
	of   int
}

// renew has the addresses that a look-up has found take the place of those that are not dialed yet, and nobody waits for a
// place behind the others.
func (s *staggered) renew(found []netip.Addr) {
	if len(found) == 0 {
		return
	}
	s.addresses = s.addresses[:s.begun]
	s.former, s.formerOngoing = s.begun, s.begun-s.ended
	for _, ip := range alternate(found) {
		if !slices.Contains(s.addresses, ip) {
			s.addresses = append(s.addresses, ip)
		}
	}
}

// waits reports whether the next address is to be dialed later, or there is none.
func (s *staggered) waits() bool {
	return s.begun == len(s.addresses) || s.begun-s.ended-s.formerOngoing >= maxAttempts
}

// connect returns the first connection, or the error of the first address. later has more addresses, nil for none.
func (s *staggered) connect(ctx context.Context, later <-chan singleflight.Result) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends attempts that are under way
	s.attempts = make(chan attempt)
	timer := time.NewTimer(attemptDelay)
	defer timer.Stop()
	s.begin(ctx)
	for {
		var over <-chan struct{} // else the end of attempts tells
		if s.begun == s.ended {
			over = ctx.Done()
		}
		select {
		case <-timer.C:
		case <-over:
			later = nil
		case more := <-later:
			later = nil
			s.renew(addressesOf(more))
		case a := <-s.attempts:
			if s.end(a); a.err == nil {
				return a.conn, nil
			}
		}
		switch {
		case !s.waits() && ctx.Err() == nil:
			s.begin(ctx)
			timer.Reset(attemptDelay)
		case s.begun == s.ended && later == nil:
			return nil, s.first
		}
	}
}

// begin dials the next address.
func (s *staggered) begin(ctx context.Context) {
	of := s.begun
	ip := s.addresses[of]
	s.begun++
	go func() {
		c, err := s.dial(ctx, ip)
		s.attempts <- attempt{c, err, of}
	}()
}

// end takes note of an attempt. After a connection, others that come are closed.
func (s *staggered) end(a attempt) {
	s.ended++
	if a.of < s.former {
		s.formerOngoing--
	}
	if a.err != nil {
		if a.of == 0 {
			s.first = a.err
		}
		return
	}
	left := s.begun - s.ended
	go func() {
		for range left {
			if late := <-s.attempts; late.err == nil {
				_ = late.conn.Close()
			}
		}
	}()
}
