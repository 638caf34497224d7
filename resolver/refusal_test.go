// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A host refuses by its own answer, and not by that of whom it redirects to,
// whatever the class.
func TestOnlyTheHostItselfRefuses(t *testing.T) {
	challenge := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		answerStatus(http.StatusUnauthorized)(w, r)
	}
	to := func(h http.HandlerFunc) http.HandlerFunc {
		storage, _ := serve(t, h)
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}
	}
	back := func(h http.HandlerFunc) http.HandlerFunc { return ledBack(t, h) }
	desc := manifestDesc
	for what, tc := range map[string]struct {
		handler http.HandlerFunc
		class   failure.Class
		refused bool
	}{
		"forbidden":               {answerStatus(http.StatusForbidden), failure.Forbidden, true},
		"unauthorized":            {challenge, failure.Unauthorized, true},
		"forbidden elsewhere":     {to(answerStatus(http.StatusForbidden)), failure.Forbidden, false},
		"unauthorized elsewhere":  {to(challenge), failure.Unauthorized, false},
		"no challenge, elsewhere": {to(answerStatus(http.StatusUnauthorized)), failure.Unauthorized, false},
		"no token":                {withTokens(answerStatus(http.StatusForbidden)), failure.Unauthorized, true},
		"no token, elsewhere":     {withTokens(to(answerStatus(http.StatusForbidden))), failure.Unauthorized, false},
		"forbidden, led there":    {back(answerStatus(http.StatusForbidden)), failure.Forbidden, false},
		"unauthorized, led there": {back(challenge), failure.Unauthorized, false},
		"no challenge, led there": {back(answerStatus(http.StatusUnauthorized)), failure.Unauthorized, false},
		"no token, led there":     {withTokens(back(answerStatus(http.StatusForbidden))), failure.Unauthorized, false},
		"not there":               {answerStatus(http.StatusNotFound), failure.NotFound, false},
	} {
		server, _ := serve(t, tc.handler)
		root := hostsDir(t, "server = \""+server.URL+"\"\n")
		r := New(Options{HostDirs: []string{root}})
		s, err := r.Open(t.Context(), Query{Reference: imageRef})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Origin(); got != serverHost(server) {
			t.Errorf("%s: the origin is %q", what, got)
		}
		_, err = s.Resolve(t.Context(), 0)
		wantRefused(t, what+", a check", err, tc.class, tc.refused)
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
		wantRefused(t, what+", a pull", source.Failure(err), tc.class, tc.refused)
		s.Close()
		_ = r.Close()
	}
}

// ledBack is a host that redirects to a storage service, which redirects to /back at the
// host, where h answers.
func ledBack(t *testing.T, h http.HandlerFunc) http.HandlerFunc {
	t.Helper()
	storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("from")+"/back", http.StatusTemporaryRedirect)
	})
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			h(w, r)
			return
		}
		http.Redirect(w, r, storage.URL+r.URL.Path+"?from=http://"+r.Host, http.StatusTemporaryRedirect)
	}
}

// withTokens is a registry with that token server.
func withTokens(tokens http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" || r.URL.Path == "/back" {
			tokens(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token"`, r.Host))
		answerStatus(http.StatusUnauthorized)(w, r)
	}
}

func wantRefused(t *testing.T, what string, err error, class failure.Class, refused bool) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e == nil || e.Class != class || (len(e.Refusals()) == 1) != refused {
		t.Errorf("%s: got %v (%T), want class %s, refused %v", what, err, err, class, refused)
	}
}

// The refusal of a registry that refuses both, and leaves no time for one request more, counts
// however an image was asked for.
func TestRefusalOfTheAbsentInTime(t *testing.T) {
	t.Parallel()
	for answers, test := range []struct {
		class failure.Class
		time  time.Duration
	}{{failure.Unreachable, time.Second}, {failure.Forbidden, 5 * time.Second}, {failure.Forbidden, plenty}} {
		for _, absent := range []bool{true, false} {
			var asked atomic.Int64
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if !isProbe(r) && asked.Add(1) > int64(answers) {
					<-r.Context().Done()
				}
				answerStatus(http.StatusForbidden)(w, r)
			})
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Absent: absent})
			_, err := s.Resolve(t.Context(), test.time)
			if e := wantClass(t, err, test.class); (len(e.Refusals()) == 1) != test.class.Refuses() {
				t.Errorf("after %d answers: %v", answers, e)
			}
		}
	}
}

// The same holds where the answer to GET comes when HEAD has been sent as well.
func TestSlowRefusalOfTheAbsent(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, whenAskedByHead(answerStatus(http.StatusForbidden)))
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Absent: true})
	_, err := s.Resolve(t.Context(), 8*time.Second)
	if e := wantClass(t, err, failure.Forbidden); len(e.Refusals()) != 1 {
		t.Errorf("got %v", e)
	}
}

// The last word of a host on some content counts: a refusal that it makes up for, by serving
// the content afterwards, is none.
func TestRefusalThatIsMadeUpFor(t *testing.T) {
	var code atomic.Int64
	mirror, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if code := int(code.Load()); code != http.StatusOK {
			answerStatus(code)(w, r)
			return
		}
		serveManifest(w, r)
	})
	origin, _ := serve(t, serveManifest)
	other, _ := serve(t, serveManifest)
	for what, hosts := range map[string][]string{"a mirror": {mirror.URL, other.URL, origin.URL}, "the registry": {mirror.URL}} {
		desc := manifestDesc
		source := open(t, Options{HostDirs: []string{hostsDir(t, chain(hosts...))}}, Query{}).Source(desc)
		fetcher, err := source.Fetcher(t.Context(), imageRef)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct{ code, refusals int }{{403, 1}, {200, 0}, {401, 1}, {404, 1}, {200, 0}} {
			code.Store(int64(step.code))
			_ = fetchAll(t, fetcher, desc)
			if got := source.Refusals(); len(got) != step.refusals {
				t.Errorf("%s, after %d: %v", what, step.code, got)
			}
		}
	}
}
