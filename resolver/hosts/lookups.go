// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

const (
	// maxNames bounds the names whose addresses are remembered: redirects can name any number.
	maxNames = 256
	// rememberAddresses is how long addresses are dialed that a look-up has found, though there is no newer one: as long as
	// connections to them are used.
	rememberAddresses = 10 * time.Minute
	// slowLookUp is how long a look-up takes where something is wrong with name servers: nobody waits then until the next
	// one has an answer, which else tells whether the host has moved.
	slowLookUp = 500 * time.Millisecond
)

// lookupFunc returns the addresses of a host, the best first, as [net.Resolver.LookupNetIP] does.
type lookupFunc func(ctx context.Context, network, host string) ([]netip.Addr, error)

// lookups knows the addresses that names had last. Where the first of two name servers is dead, each look-up takes
// 5 seconds (resolv.conf(5), timeout), more than a short dial has: so it outlives those who wait for it, and who comes
// next dials what it has found. Safe for concurrent use.
type lookups struct {
	lookup lookupFunc
	dialer *dialer // that ends them
	under  singleflight.Group
	last   *lru.Cache[string, known]
}

// known are the addresses of a name.
type known struct {
	addresses []netip.Addr
	at        time.Time
	took      time.Duration
}

func newLookups(lookup lookupFunc, ends *dialer) *lookups {
	last, _ := lru.New[string, known](maxNames) // fails for sizes below 1 only
	return &lookups{lookup: lookup, dialer: ends, last: last}
}

// find returns the addresses of a host, the best first. Where remembers says so, those of before are returned where the
// look-up fails for no reason of the name's, or after a while where it takes long as the last one did; its result follows on
// later then.
//
//nolint:contextcheck,nolintlint // the look-up outlives who waits for it
func (l *lookups) find(ctx context.Context, host string, remembers bool) (found []netip.Addr, later <-chan singleflight.Result, err error) {
	answer := l.ask(host)
	before, ok := l.last.Get(host)
	ok = ok && remembers && time.Since(before.at) < rememberAddresses
	var late <-chan time.Time
	if ok && before.took >= slowLookUp {
		late = time.After(attemptDelay)
	}
	select {
	case a := <-answer:
		if a.Err == nil || !ok || notFound(a.Err) {
			return addressesOf(a), nil, a.Err
		}
		return before.addresses, nil, nil
	case <-late:
		return before.addresses, answer, nil
	case <-ctx.Done():
		return nil, nil, &net.DNSError{
			UnwrapErr: ctx.Err(), Err: "no name server has answered in time", Name: host, IsTimeout: errors.Is(ctx.Err(), context.DeadlineExceeded),
		}
	}
}

// ask looks a host up, or joins who does.
func (l *lookups) ask(host string) <-chan singleflight.Result {
	return l.under.DoChan(host, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), dialTime)
		defer cancel()
		release, err := l.dialer.add(cancel)
		if err != nil {
			return nil, err
		}
		defer release()
		began := time.Now()
		found, err := l.look(ctx, host)
		switch {
		case err == nil:
			l.last.Add(host, known{found, time.Now(), time.Since(began)})
		case notFound(err):
			l.last.Remove(host)
		}
		return found, err
	})
}

// look looks a host up. Where it had addresses, and there is none now, the family that it never had may have answered last, and
// nobody be able to tell of the other: each that it had is looked up by itself.
func (l *lookups) look(ctx context.Context, host string) (found []netip.Addr, err error) {
	found, err = l.lookup(ctx, "ip", host)
	before, ok := l.last.Peek(host)
	if !ok || !notFound(err) {
		return found, err
	}
	for _, network := range familiesOf(before.addresses) {
		if found, err = l.lookup(ctx, network, host); !notFound(err) {
			break
		}
	}
	return found, err
}

// familiesOf returns the networks by which the families of addresses are looked up alone.
func familiesOf(all []netip.Addr) (networks []string) {
	for _, a := range all {
		network := "ip6"
		if a.Unmap().Is4() {
			network = "ip4"
		}
		if !slices.Contains(networks, network) {
			networks = append(networks, network)
		}
	}
	return networks
}

// addressesOf returns what a look-up has found, nil for nothing.
func addressesOf(r singleflight.Result) []netip.Addr {
	found, _ := r.Val.([]netip.Addr)
	return found
}

// notFound reports whether a name server has said that there is no such name.
func notFound(err error) bool {
	failed, ok := errors.AsType[*net.DNSError](err)
	return ok && failed.IsNotFound
}
