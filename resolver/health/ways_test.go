// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
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
