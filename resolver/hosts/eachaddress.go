// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"net"
	"net/netip"
	"time"
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

// lookupFunc returns the addresses of a host, the best first, as [net.Resolver.LookupNetIP] does.
type lookupFunc func(ctx context.Context, network, host string) ([]netip.Addr, error)

// eachAddress dials the addresses of a host side by side, one a little later than the other, and takes the first
// connection: net.Dialer gives each address of a family a part of the time, 2 seconds or more, so that one which
// swallows packets takes all of a short dial. The error is that of the first address.
func eachAddress(lookup lookupFunc, dial dialFunc) dialFunc {
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
		found, err := lookup(ctx, "ip", host)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		addresses := make([]string, 0, len(found))
		for _, ip := range alternate(found) {
			addresses = append(addresses, net.JoinHostPort(ip.String(), port))
		}
		if len(addresses) == 0 {
			return dial(ctx, network, address)
		}
		return staggered(ctx, dial, network, addresses)
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
func staggered(ctx context.Context, dial dialFunc, network string, addresses []string) (net.Conn, error) {
	type attempt struct {
		conn net.Conn
		err  error
		of   int
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	attempts := make(chan attempt, len(addresses))
	timer := time.NewTimer(attemptDelay)
	defer timer.Stop()
	begun, ended := 0, 0
	begin := func() {
		of := begun
		go func() {
			c, err := dial(ctx, network, addresses[of])
			attempts <- attempt{c, err, of}
		}()
		begun++
		timer.Reset(attemptDelay)
	}
	begin()
	var first error
	for {
		select {
		case <-timer.C:
		case a := <-attempts:
			ended++
			if a.err == nil {
				left := begun - ended
				go func() { // those that come too late; cancel ends the others
					for range left {
						if late := <-attempts; late.err == nil {
							_ = late.conn.Close()
						}
					}
				}()
				return a.conn, nil
			}
			if a.of == 0 {
				first = a.err
			}
		}
		switch {
		case begun < len(addresses) && begun-ended < maxAttempts && ctx.Err() == nil:
			begin()
		case begun == ended:
			return nil, first
		}
	}
}
