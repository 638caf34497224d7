// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// besideOneInTrouble returns a host that wants tokens, and its token server. Behind it is another one, which is known to be in trouble.
func besideOneInTrouble(t *testing.T) (first, tokens *resolvertest.Registry, r *Resolver) {
	t.Helper()
	tokens = servedBy(t, giveToken)
	first = servedBy(t, wantsToken(tokens.URL(), nil))
	other, _ := serve(t, answerStatus(http.StatusServiceUnavailable))
	r = newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(first.URL(), other.URL))}})
	_, _ = once(t.Context(), r, Query{Allow: onlyFrom(serverHost(other))}, plenty)
	waitFor(t, func() bool { return len(r.Troubled()) > 0 })
	return first, tokens, r
}

// The registry is down for good, as the mirror is there for. Packets to the mirror's token server, or to the mirror, are lost for
// some seconds as the content is asked for.
func TestMirrorWhoseTokenServersConnectionTakesSeconds(t *testing.T) {
	for name, ofTokens := range map[string]bool{"the mirror's": false, "its token server's": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror, tokens, r := besideOneInTrouble(t)
			lost := mirror
			if ofTokens {
				lost = tokens
			}
			if err := lost.Swallow(); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(2500*time.Millisecond, func() { _ = lost.Restore() })
			began := time.Now()
			src := openAt(t, r, Query{Credentials: alice}).Source(manifestDesc)
			if _, err := read(t, src, manifestDesc); err != nil {
				t.Errorf("failed after %v: %v", time.Since(began), src.Failure(err))
			}
		})
	}
}

// A token server takes no connections for 9 s. A check that has no other host has 30 s for it, also where the pull of one that
// has another host (in trouble) gives the connection its second dial, of 8 s, and has begun the request for their token.
func TestTheLastHostIsDialledLongBesideASecondDial(t *testing.T) {
	for name, joins := range map[string]bool{"alone": false, "beside a second dial": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry, tokens, r := besideOneInTrouble(t)
			if err := tokens.Swallow(); err != nil {
				t.Fatal(err)
			}
			if err := registry.Swallow(); err != nil { // the first packet to it is lost: so the fetch has its second dial
				t.Fatal(err)
			}
			began := time.Now()
			time.AfterFunc(1050*time.Millisecond, func() { _ = registry.Restore() })
			time.AfterFunc(10700*time.Millisecond, func() { _ = tokens.Restore() })
			first := make(chan struct{})
			if joins {
				s := openAt(t, r, Query{Credentials: alice})
				go func() {
					defer close(first)
					_, err := read(t, s.Source(manifestDesc), manifestDesc)
					t.Log("first:", time.Since(began), err)
				}()
			} else {
				close(first)
			}
			time.Sleep(27 * hosts.ShortDial / 10)
			got, err := once(t.Context(), r, Query{Credentials: alice, Allow: onlyFrom(registry.Host())}, time.Minute)
			t.Log(time.Since(began), got.Host)
			if err != nil {
				t.Error(err)
			}
			<-first
		})
	}
}

// A token server takes no connections. A check that has no other host waits 30 s for it; a pull that has another host (in trouble), and
// joins the check's request for their token, gives that up after 8 s at its second dial.
func TestSecondDialBesideTheLastHosts(t *testing.T) {
	t.Parallel()
	registry, tokens, r := besideOneInTrouble(t)
	if err := tokens.Swallow(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	checked := make(chan error)
	go func() {
		_, err := once(ctx, r, Query{Credentials: alice, Allow: onlyFrom(registry.Host())}, time.Minute)
		checked <- err
	}()
	time.Sleep(hosts.ShortDial / 4)
	began := time.Now()
	_, err := read(t, openAt(t, r, Query{Credentials: alice}).Source(manifestDesc), manifestDesc)
	if took := time.Since(began); err == nil || took < hosts.SecondDial || took > 3*hosts.SecondDial/2 {
		t.Errorf("the pull ended after %v: %v", took, err)
	}
	select {
	case err := <-checked:
		t.Errorf("the check ended with it: %v", err)
	default:
		cancel()
		<-checked
	}
	cancel()
}

// The other host is in trouble. The first packet of a pull to the registry is lost, so that its connection has
// its second dial. It comes to the token while another pull, which is at its first dial (1 s), has begun the request for that; packets to
// the token server are lost for 3 s. The first pull has not had the 8 s of a second dial for the token server, and must not fail with the
// other's one second. The other one does not fail.
func TestSecondDialBesideAFirstOneOfTheTokenServer(t *testing.T) {
	t.Parallel()
	registry, tokens, r := besideOneInTrouble(t)
	if err := tokens.Swallow(); err != nil {
		t.Fatal(err)
	}
	if err := registry.Swallow(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	time.AfterFunc(1050*time.Millisecond, func() { _ = registry.Restore() })
	time.AfterFunc(4*time.Second, func() { _ = tokens.Restore() })
	one, two := openAt(t, r, Query{Credentials: alice}).Source(manifestDesc), openAt(t, r, Query{Credentials: alice}).Source(manifestDesc)
	done := make(chan error)
	go func() {
		_, err := read(t, one, manifestDesc)
		t.Logf("the one at its second dial: %v, %v", time.Since(began), err)
		done <- err
	}()
	time.Sleep(1100 * time.Millisecond)
	_, err := read(t, two, manifestDesc)
	t.Logf("the one at its first dial: %v, %v", time.Since(began), err)
	if err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("failed: %v", one.Failure(err))
	}
}
