// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Only an authority's own refusal and "not found" count, and end a check.
func TestAuthorityAnswers(t *testing.T) {
	storage := func(code int) http.HandlerFunc {
		server, _ := serve(t, answerStatus(code))
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, server.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}
	}
	desc := manifestDesc
	for name, tc := range map[string]struct {
		mirror http.HandlerFunc
		class  failure.Class // of the authority's answer; None where it has no say
	}{
		"401":            {answerStatus(401), failure.Unauthorized},
		"403":            {answerStatus(403), failure.Forbidden},
		"404":            {answerStatus(404), failure.NotFound},
		"410":            {answerStatus(410), failure.NotFound},
		"429":            {answerStatus(429), failure.None},
		"500":            {answerStatus(500), failure.None},
		"invalid":        {answerStatus(400), failure.None},
		"unreachable":    {hangUp, failure.None},
		"401 elsewhere":  {storage(401), failure.None},
		"403 elsewhere":  {storage(403), failure.None},
		"404 elsewhere":  {storage(404), failure.None},
		"404, led there": {ledBack(t, answerStatus(404)), failure.None},
	} {
		t.Run(name, func(t *testing.T) {
			mirror, _ := serve(t, tc.mirror)
			origin, log := serve(t, answerStatus(500))
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, origin.URL))}}, Query{
				Authority: func(host string) bool { return host == serverHost(mirror) },
			})
			_, err := s.Resolve(t.Context(), plenty)
			want := tc.class
			if want == failure.None {
				want = failure.Unavailable // of the origin
			}
			e := wantClass(t, err, want)
			if ended := len(log.list()) == 0; ended != (tc.class != failure.None) || e.Attempts[0].Authority != ended {
				t.Errorf("the origin got %v; %v", log.list(), e)
			}

			source := s.Source(desc)
			fetcher, err := source.Fetcher(t.Context(), imageRef)
			if err != nil {
				t.Fatal(err)
			}
			body, err := fetcher.Fetch(t.Context(), desc)
			if err == nil {
				_, err = io.ReadAll(body)
				_ = body.Close()
			}
			if e := wantClass(t, source.Failure(err), want); len(e.Attempts) != 2 {
				t.Errorf("not all hosts were asked for content: %v", e)
			}
		})
	}
}

// The class of a failure is that of whoever has the most to say.
func TestDecidingClassWithAuthority(t *testing.T) {
	mirror := Attempt{Class: failure.Forbidden, Refused: true}
	unreachable := Attempt{Class: failure.Unreachable, Origin: true}
	forbids := Attempt{Class: failure.Forbidden, Origin: true, Refused: true}
	missing := Attempt{Class: failure.NotFound, Authority: true}
	refuses := Attempt{Class: failure.Unauthorized, Authority: true, Refused: true}
	for name, tc := range map[string]struct {
		attempts []Attempt
		want     failure.Class
	}{
		"one path to the origin":      {[]Attempt{{Class: failure.RateLimited, Origin: true}, unreachable}, failure.RateLimited},
		"that, and an authority":      {[]Attempt{missing, {Class: failure.RateLimited, Origin: true}}, failure.NotFound},
		"nobody":                      {nil, failure.Invalid},
		"a mirror":                    {[]Attempt{mirror}, failure.Forbidden},
		"the origin":                  {[]Attempt{unreachable, mirror}, failure.Unreachable},
		"an authority":                {[]Attempt{missing, unreachable, mirror}, failure.NotFound},
		"an authority, the origin":    {[]Attempt{unreachable, refuses}, failure.Unauthorized},
		"the origin refuses":          {[]Attempt{forbids, missing}, failure.Forbidden},
		"both refuse":                 {[]Attempt{forbids, refuses}, failure.Unauthorized},
		"an authority's refusal":      {[]Attempt{refuses, missing, unreachable}, failure.Unauthorized},
		"the origin has nothing else": {[]Attempt{{Class: failure.NotFound, Origin: true}, mirror}, failure.NotFound},
	} {
		if got := decidingClass(tc.attempts); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
