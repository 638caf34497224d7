// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// gives is a token server whose tokens are good for nobody knows how long, and come after a while.
func gives(token string, takes time.Duration) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		time.Sleep(takes)
		return says(req, http.StatusOK, `{"access_token":"`+token+`"}`), nil
	}
}

// forRenewals are sessions whose token server has given "t", two minutes ago. They end with the test.
func forRenewals(t *testing.T) sessions {
	t.Helper()
	s := newSessions(byHost{"tokens.test": gives("t", 0)}) //nolint:bodyclose // they have none
	t.Cleanup(func() { s.cache.Forget(s.of) })
	s.challenged(t, "team/app")
	if header, _, err := s.authorize(t); err != nil || header != "Bearer t" {
		t.Fatal(header, err)
	}
	time.Sleep(2 * time.Minute)
	return s
}

// challenged has the host name its token server for a repository.
func (s sessions) challenged(t *testing.T, name string) {
	t.Helper()
	if err := s.begin(name).AddResponses(checking(t), challengeAt("tokens.test", name)); err != nil { //nolint:bodyclose // it has none
		t.Fatal(err)
	}
}

func checking(t *testing.T) context.Context {
	t.Helper()
	return purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Check})
}

// authorize returns the Authorization for a check that has 4 seconds, and how long that took.
func (s sessions) authorize(t *testing.T) (header string, took time.Duration, err error) {
	t.Helper()
	within, cancel := context.WithTimeout(checking(t), 4*time.Second)
	defer cancel()
	req, began := toHost(), time.Now()
	err = s.begin("team/app").Authorize(within, req)
	return req.Header.Get("Authorization"), time.Since(began), err
}

// A token does not outlive a refusal of its renewal, also where nobody waits for that any more.
func TestRefusalOfARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := forRenewals(t)
		s.servers["tokens.test"] = func(req *http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return says(req, http.StatusForbidden, ""), nil
		}
		if header, took, err := s.authorize(t); err != nil || header != "Bearer t" || took != 2*time.Second {
			t.Errorf("before it is refused: %q, %v, after %v", header, err, took)
		}
		time.Sleep(3 * time.Second)
		s.challenged(t, "team/other") // so that the refusal is the host's
		if header, _, err := s.authorize(t); header != "" || !fault.TokenClass(err).Refuses() {
			t.Errorf("after the refusal: %q, %v", header, err)
		}
	})
}

// Nothing that a renewal is ends with a session, but all of it with the tokens.
func TestRenewalEndsWithItsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := forRenewals(t)
		var ended time.Time
		s.servers["tokens.test"] = func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			ended = time.Now()
			return nil, req.Context().Err()
		}
		for range 3 {
			if header, _, err := s.authorize(t); err != nil || header != "Bearer t" {
				t.Error(header, err)
			}
		}
		synctest.Wait()
		if !ended.IsZero() {
			t.Error("the renewal has ended with who began it")
		}
		s.cache.Forget(s.of)
		synctest.Wait()
		if ended.IsZero() {
			t.Error("the renewal goes on")
		}
	})
}

// What a renewal leaves counts, though nobody has waited for it to the end.
func TestRenewalIsAccounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := forRenewals(t)
		s.servers["tokens.test"] = gives(strings.Repeat("t", 10000), 5*time.Second) //nolint:bodyclose // it has none
		if _, _, err := s.authorize(t); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s.cache.mu.Lock()
		defer s.cache.mu.Unlock()
		if s.cache.bytes < 20000 {
			t.Errorf("%d bytes are counted", s.cache.bytes)
		}
	})
}

// A token is good since it was asked for, and not since its answer has come: its server may have issued it at once.
func TestTokenThatIsOverSinceItWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issued := 0
		s := newSessions(byHost{"tokens.test": func(req *http.Request) (*http.Response, error) {
			issued++
			token := strconv.Itoa(issued)
			time.Sleep(time.Second)
			return says(req, http.StatusOK, `{"access_token":"`+token+`","expires_in":60}`), nil
		}})
		t.Cleanup(func() { s.cache.Forget(s.of) })
		s.challenged(t, "team/app")
		for i, pause := range []time.Duration{0, 58 * time.Second, 1500 * time.Millisecond} {
			time.Sleep(pause)
			want := "Bearer " + []string{"1", "1", "2"}[i]
			if header, _, err := s.authorize(t); err != nil || header != want {
				t.Errorf("%v later: %q, %v, want %q", pause, header, err, want)
			}
		}
	})
}
