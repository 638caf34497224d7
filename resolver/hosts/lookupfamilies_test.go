// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// That a name has no IPv6 address, and nobody can tell whether it has an IPv4 one, which Go's resolver may have as one that does not
// exist, is no reason to forget that it had one.
func TestLookUpOfTwoFamilies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialed{takes: map[string]time.Duration{"10.0.0.1:443": 10 * ms}, at: map[string]time.Duration{}}
		n := &nameServers{found: "10.0.0.1"}
		names := newLookups(n.look, &dialer{})
		none := &net.DNSError{Err: "no such host", Name: "registry.test", IsNotFound: true}
		_, _ = short(t, names, d.dial)
		n.set(0, "", none)
		n.ipv4 = &net.DNSError{Err: "server misbehaving", Name: "registry.test", IsTemporary: true}
		for range 3 {
			if took, err := short(t, names, d.dial); err != nil {
				t.Errorf("after %v: %v", took, err)
			}
		}
		for _, ipv4 := range []error{none, n.ipv4} {
			n.ipv4 = ipv4
			if _, err := short(t, names, d.dial); !errors.Is(err, none) {
				t.Errorf("the address of a name is dialed that is no more: %v", err)
			}
		}
		names.last.Add("registry.test", known{[]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1")}, time.Now(), 0})
		if took, err := short(t, names, d.dial); err != nil {
			t.Errorf("with both, of which the first is no more, after %v: %v", took, err)
		}
	})
}
