// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/pool"
)

// nameServers answers look-ups as is set: so long afterwards, and so.
type nameServers struct {
	mu    sync.Mutex
	takes time.Duration
	found string // "" = the name servers fail
	err   error  // instead
	ipv4  error  // instead, where that alone is asked for

	asked atomic.Int64
	under atomic.Int64
}

func (n *nameServers) set(takes time.Duration, found string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.takes, n.found, n.err = takes, found, err
}

func (n *nameServers) look(ctx context.Context, network, host string) ([]netip.Addr, error) {
	n.asked.Add(1)
	n.under.Add(1)
	defer n.under.Add(-1)
	n.mu.Lock()
	takes, found, err := n.takes, n.found, n.err
	if network == "ip4" && n.ipv4 != nil {
		err = n.ipv4
	}
	n.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, &net.DNSError{Err: "ended", Name: host, UnwrapErr: ctx.Err(), IsTimeout: true}
	}
	switch {
	case err != nil:
		return nil, err
	case found == "":
		return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
	}
	return []netip.Addr{netip.MustParseAddr(found)}, nil
}

// dialing is the context by which a transport dials for a request.
func dialing(t *testing.T, url string, by *http.Transport) (ctx context.Context) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return pool.WithVerified(req, by).Context()
}

// short dials registry.test as a mirror is dialed, and returns how long that took.
func short(t *testing.T, names *lookups, dial dialFunc) (took time.Duration, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(dialing(t, "https://registry.test/v2/", &http.Transport{}), ShortDial)
	defer cancel()
	began := time.Now()
	c, err := eachAddress(names, dial)(ctx, "tcp", "registry.test:443")
	if err == nil {
		_ = c.Close()
	}
	return time.Since(began), err
}

const ms = time.Millisecond

// A look-up that takes longer than a dial has is not in vain: the next dials go where it has led, also while it takes as
// long again.
func TestLookUpOutlivesTheDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialed{began: time.Now(), takes: map[string]time.Duration{"10.0.0.1:443": 10 * ms}, at: map[string]time.Duration{}}
		n := &nameServers{takes: 5 * time.Second, found: "10.0.0.1"}
		names := newLookups(n.look, &dialer{})
		for range 3 {
			took, err := short(t, names, d.dial)
			if failed, ok := errors.AsType[*net.DNSError](err); !ok || !failed.IsTimeout || failed.Name != "registry.test" || took != ShortDial {
				t.Errorf("after %v: %v", took, err)
			}
		}
		time.Sleep(3 * time.Second)
		if n.asked.Load() != 1 {
			t.Errorf("it is looked up %d times", n.asked.Load())
		}
		for range 3 {
			if took, err := short(t, names, d.dial); err != nil || took != attemptDelay+10*ms {
				t.Errorf("after %v: %v", took, err)
			}
			time.Sleep(rememberAddresses / 2)
		}
		time.Sleep(rememberAddresses)
		if took, err := short(t, names, d.dial); err == nil {
			t.Errorf("an address of long ago is dialed, after %v", took)
		}
		time.Sleep(dialTime)
	})
}

// What a look-up finds is dialed beside what is remembered, however late it is.
func TestLookUpThatIsLateIsHeard(t *testing.T) {
	for name, refused := range map[string]error{"swallows": nil, "refuses": errors.New("refused")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &dialed{takes: map[string]time.Duration{"10.0.0.1:443": 10 * ms, "10.0.0.2:443": 10 * ms}, at: map[string]time.Duration{}}
				n := &nameServers{takes: slowLookUp, found: "10.0.0.1"}
				names := newLookups(n.look, &dialer{})
				if took, err := short(t, names, d.dial); err != nil || took != slowLookUp+10*ms {
					t.Errorf("after %v: %v", took, err)
				}
				delete(d.takes, "10.0.0.1:443")
				if d.fails = map[string]error{}; refused != nil {
					d.fails["10.0.0.1:443"] = refused
				}
				n.set(600*ms, "10.0.0.2", nil)
				if took, err := short(t, names, d.dial); err != nil || took != 610*ms {
					t.Errorf("after %v: %v", took, err)
				}
				n.set(0, "10.0.0.2", nil)
				if took, err := short(t, names, d.dial); err != nil || took != 10*ms {
					t.Errorf("after %v: %v", took, err)
				}
				synctest.Wait()
				if d.open != 0 {
					t.Errorf("%d connections are open", d.open)
				}
			})
		})
	}
}

// Where name servers fail, what is remembered serves; a name that there is no more does not.
func TestRememberedAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialed{takes: map[string]time.Duration{"10.0.0.1:443": 10 * ms}, at: map[string]time.Duration{}}
		n := &nameServers{}
		names := newLookups(n.look, &dialer{})
		want := func(what string, well bool, in time.Duration) {
			t.Helper()
			if took, err := short(t, names, d.dial); (err == nil) != well || took != in {
				t.Errorf("%s: after %v: %v", what, took, err)
			}
		}
		want("nothing is known", false, 0)
		n.set(0, "10.0.0.1", nil)
		want("well", true, 10*ms)
		n.set(0, "", nil)
		want("the name servers fail", true, 10*ms)
		n.set(900*ms, "", nil)
		want("they fail late", true, 910*ms)
		n.set(0, "", &net.DNSError{Err: "no such host", IsNotFound: true})
		want("there is no such name", false, 0)
		n.set(0, "", nil)
		want("the name servers fail after that", false, 0)
	})
}

// A look-up that nobody waits for ends with the Cache, and none begins after that.
func TestLookUpEndsWithTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &nameServers{takes: time.Hour}
		ends := &dialer{}
		names := newLookups(n.look, ends)
		if _, err := short(t, names, nil); err == nil || n.under.Load() != 1 {
			t.Errorf("%v; %d look-ups are under way", err, n.under.Load())
		}
		ends.close()
		synctest.Wait()
		if _, err := short(t, names, nil); !errors.Is(err, ErrClosed) || n.under.Load() != 0 || n.asked.Load() != 1 {
			t.Errorf("%v; %d look-ups are under way of %d", err, n.under.Load(), n.asked.Load())
		}
	})
}

// Who watches a request hears of the look-up, as it does of net.Dialer's.
func TestLookUpIsTraced(t *testing.T) {
	n := &nameServers{}
	var heard []error
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		DNSDone: func(info httptrace.DNSDoneInfo) { heard = append(heard, info.Err) },
	})
	_, err := eachAddress(newLookups(n.look, &dialer{}), nil)(ctx, "tcp", "registry.test:443")
	if len(heard) != 1 || heard[0] == nil || !errors.Is(err, heard[0]) {
		t.Errorf("heard is %v of %v", heard, err)
	}
}

// A host that has moved is dialed where it is, be its former addresses many: they are no more than a guess.
func TestFreshAddressesBeforeFormerOnes(t *testing.T) {
	for _, former := range []int{1, 3, maxAttempts, 2 * maxAttempts} {
		synctest.Test(t, func(t *testing.T) {
			d := &dialed{takes: map[string]time.Duration{"10.1.0.1:443": 10 * ms}, at: map[string]time.Duration{}}
			var at []netip.Addr
			for i := range former {
				at = append(at, netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}))
			}
			names := newLookups(func(context.Context, string, string) ([]netip.Addr, error) {
				found := at
				time.Sleep(slowLookUp)
				return found, nil
			}, &dialer{})
			if _, _, err := names.find(t.Context(), "registry.test", true); err != nil {
				t.Fatal(err)
			}
			at = []netip.Addr{netip.MustParseAddr("10.1.0.1")}
			if took, err := short(t, names, d.dial); err != nil || took != slowLookUp+10*ms {
				t.Errorf("%d former addresses: after %v: %v", former, took, err)
			}
		})
	}
}

// Where name servers are well, a look-up is waited for, however long the way to them is: it tells whether the host has moved,
// or is no more.
func TestLookUpIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialed{takes: map[string]time.Duration{"10.0.0.1:443": 0, "10.0.0.2:443": 0}, at: map[string]time.Duration{}}
		n := &nameServers{takes: slowLookUp - ms, found: "10.0.0.1"}
		names := newLookups(n.look, &dialer{})
		for range 2 {
			if took, err := short(t, names, d.dial); err != nil || took != slowLookUp-ms {
				t.Errorf("after %v: %v", took, err)
			}
		}
		clear(d.at)
		n.set(800*ms, "10.0.0.2", nil)
		if took, err := short(t, names, d.dial); err != nil || took != 800*ms || len(d.at) != 1 {
			t.Errorf("after %v: %v; dialed are %v", took, err, d.at)
		}
	})
}

// Where no certificate is verified, whoever has an address of before by now would be shown credentials.
func TestAddressesThatAreNotRemembered(t *testing.T) {
	const url = "https://registry.test/v2/"
	for name, test := range map[string]struct {
		url        string
		unverified bool
		address    string // that is dialed
		remembered bool
	}{
		"verified":             {url, false, "registry.test:443", true},
		"at a port":            {"https://Registry.test:5000/v2/", false, "registry.test:5000", true},
		"in clear":             {"http://registry.test:443/v2/", false, "registry.test:443", false},
		"skip_verify":          {url, true, "registry.test:443", false},
		"a proxy":              {url, false, "proxy.test:3128", false},
		"a proxy at that port": {url, false, "proxy.test:443", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &dialed{takes: map[string]time.Duration{}, at: map[string]time.Duration{}}
				_, port, _ := net.SplitHostPort(test.address)
				d.takes["10.0.0.1:"+port] = 0
				n := &nameServers{takes: slowLookUp, found: "10.0.0.1"}
				dial := eachAddress(newLookups(n.look, &dialer{}), d.dial)
				ctx := dialing(t, test.url, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: test.unverified}})
				if _, err := dial(ctx, "tcp", test.address); err != nil {
					t.Fatal(err)
				}
				n.set(slowLookUp, "", nil)
				began := time.Now()
				if _, err := dial(ctx, "tcp", test.address); (err == nil) != test.remembered || test.remembered != (time.Since(began) == attemptDelay) {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				time.Sleep(time.Second)
			})
		})
	}
}
