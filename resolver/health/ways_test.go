// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Each way in which a host is asked has a health of its own, and so have the token servers that
// it leads to.
func TestWaysToAskAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		mine, other := Key{Host: host.Host, How: "mine"}, Key{Host: host.Host, How: "other"}
		tokens := Key{Host: "https://auth.test", How: mine.How, For: mine.Host}
		view := s.View(nil, mine)
		for _, key := range []Key{mine, tokens} {
			view.Failed(key, s.probe, Failure{Class: failure.Unavailable, Reason: "503"})
		}
		synctest.Wait()
		want := func(open bool, keys ...Key) {
			t.Helper()
			for _, key := range keys {
				if s.Blocked(key) != open {
					t.Errorf("%+v: open is %v", key, !open)
				}
			}
		}
		elsewhere := []Key{host, other, {Host: tokens.Host, For: host.Host}, {Host: tokens.Host, How: other.How, For: host.Host}}
		want(true, mine, tokens)
		want(false, elsewhere...)
		for _, key := range elsewhere {
			s.View(nil, key).Answered(key, false)
			s.Forget(key)
		}
		want(true, mine, tokens)
		s.Forget(mine)
		want(false, mine, tokens)
	})
}

// Tokens at a host's own address have a health of their own, which speaks for nothing else that the host leads to.
func TestTokensAtTheHostsOwnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		tokens, elsewhere := Key{Host: host.Host, For: host.Host, Tokens: true}, Key{Host: "https://storage.test", For: host.Host}
		view := s.View(team("a"), host)
		view.Failed(tokens, s.probe, keptWaiting(time.Second, false))
		view.Failed(elsewhere, nil, keptWaiting(time.Second, false))
		synctest.Wait()
		if !s.Blocked(tokens) || s.Blocked(host) || s.View(team("a")).Known(host, 0) != nil {
			t.Errorf("got %+v", s.States())
		}
		if !s.View(team("a")).Blocked(host, 0) {
			t.Error("a host whose tokens are in trouble is not passed over")
		}
		s.View(nil).Answered(host, false)
		if !s.Blocked(tokens) {
			t.Error("an answer of the host ends their trouble")
		}
		s.View(nil).Answered(tokens, false)
		if s.Blocked(tokens) || !s.View(team("a")).Blocked(elsewhere, 0) {
			t.Errorf("once tokens are given: got %+v, elsewhere is left alone: %v", s.States(), s.View(team("a")).Blocked(elsewhere, 0))
		}
		s.Forget(host)
		if s.View(team("a")).Blocked(tokens, 0) || s.View(team("a")).Blocked(elsewhere, 0) {
			t.Error("a changed configuration is not forgotten about")
		}
	})
}

// A host is passed over whose token server is in trouble, or has failed the session or its scope, wherever that is: not for that of
// another host, or one that somebody else has chosen, nor for what others met with there.
func TestTokenServersElsewhere(t *testing.T) {
	led := Key{Host: "https://auth.test", For: host.Host, Tokens: true, Led: true}
	for name, test := range map[string]struct {
		key      Key
		limits   bool // else it hangs
		own, all bool // it is passed over by the scope, by others
	}{
		"it is in trouble":                  {Key{Host: "https://auth.test", For: host.Host, Tokens: true}, false, true, true},
		"it limits the caller":              {Key{Host: "https://auth.test", For: host.Host, Tokens: true}, true, true, false},
		"the same, at the host's address":   {Key{Host: host.Host, For: host.Host, Tokens: true}, true, true, false},
		"of a host that is asked otherwise": {Key{Host: "https://auth.test", How: "other", For: host.Host, Tokens: true}, false, false, false},
		"of another host":                   {Key{Host: "https://auth.test", For: "https://other.test", Tokens: true}, false, false, false},
		"that a storage service has named":  {led, true, false, false},
		"a storage service, and no tokens":  {Key{Host: "https://auth.test", For: host.Host}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.set(silent, 0)
				view := s.View(team("a"), host)
				failed := keptWaiting(time.Second, false)
				if test.limits {
					failed = Failure{Class: failure.RateLimited}
				}
				view.Failed(test.key, s.probe, failed)
				synctest.Wait()
				time.Sleep(2 * ProbeTime)
				for who, want := range map[*View]bool{view: test.own, s.View(team("a")): test.own, s.View(team("b")): test.all, s.View(nil): test.all} {
					if got := who.Blocked(host, 0); got != want {
						t.Errorf("it is passed over: %v, want %v", got, want)
					}
				}
				s.set(Verdict{}, 0)
				view.Want(host)
				synctest.Wait()
				if got := s.View(team("b")).Blocked(host, 0); got {
					t.Error("it was not probed for who wants it")
				}
				s.Forget(host)
				s.Forget(Key{Host: "https://other.test"})
				s.Forget(Key{Host: host.Host, How: "other"})
				if len(s.memory.tokens) > 0 {
					t.Errorf("kept: %v", s.memory.tokens)
				}
			})
		})
	}
}

// What is remembered of token servers is as much as of all hosts.
func TestTokenServersAreForgotten(t *testing.T) {
	b := New()
	defer b.Close()
	for n := range 2 * maxRemembered {
		b.View(team(fmt.Sprint(n))).Failed(Key{Host: "https://auth.test", For: host.Host, Tokens: true}, nil, Failure{Class: failure.RateLimited})
	}
	if len(b.memory.tokens) != maxRemembered || b.View(team("0")).Blocked(host, 0) || !b.View(team(fmt.Sprint(2*maxRemembered-1))).Blocked(host, 0) {
		t.Errorf("kept of %d", len(b.memory.tokens))
	}
}
