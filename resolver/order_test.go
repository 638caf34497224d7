// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Mirrors are asked behind the origin, and only after a failure that is no answer.
func TestOriginThenMirrors(t *testing.T) {
	type hosts = []http.HandlerFunc // the last is the origin
	for name, tc := range map[string]struct {
		hosts  hosts
		answer int           // index of the host that answers, -1 none
		failed failure.Class // of the origin, where a mirror answers
		class  failure.Class // when none answers
		asked  int           // mirrors
	}{
		"the origin answers":           {hosts{serveManifest, serveManifest}, 1, failure.None, "", 0},
		"unreachable":                  {hosts{serveManifest, hangUp}, 0, failure.Unreachable, "", 1},
		"unavailable":                  {hosts{serveManifest, answerStatus(502)}, 0, failure.Unavailable, "", 1},
		"the second mirror":            {hosts{answerStatus(404), serveManifest, answerStatus(502)}, 1, failure.Unavailable, "", 2},
		"limited":                      {hosts{serveManifest, answerStatus(429)}, -1, "", failure.RateLimited, 0},
		"not found":                    {hosts{serveManifest, answerStatus(404)}, -1, "", failure.NotFound, 0},
		"unauthorized":                 {hosts{serveManifest, answerStatus(401)}, -1, "", failure.Unauthorized, 0},
		"forbidden":                    {hosts{serveManifest, answerStatus(403)}, -1, "", failure.Forbidden, 0},
		"invalid":                      {hosts{serveManifest, page}, -1, "", failure.Invalid, 0},
		"the mirror has nothing":       {hosts{answerStatus(404), hangUp}, -1, "", failure.Unreachable, 1},
		"the mirror refuses":           {hosts{answerStatus(403), answerStatus(500)}, -1, "", failure.Unavailable, 1},
		"mirrors fail, the origin too": {hosts{page, hangUp, hangUp}, -1, "", failure.Unreachable, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var urls []string
			var logs []*requests
			for _, h := range tc.hosts {
				server, log := serve(t, h)
				urls, logs = append(urls, server.URL), append(logs, log)
			}
			got, err := resolve(t, Query{Order: OriginThenMirrors}, urls...)
			if tc.answer < 0 {
				wantClass(t, err, tc.class)
			} else if err != nil || "http://"+got.Host != urls[tc.answer] || got.OriginFailed != tc.failed {
				t.Errorf("got %+v, %v", got, err)
			}
			for i, log := range logs[:len(logs)-1] {
				if asked := len(log.list()) > 0; asked != (i < tc.asked) {
					t.Errorf("mirror %d got %v", i, log.list())
				}
			}
		})
	}
}

// A transient failure of the origin is tried again before a mirror is asked.
func TestOriginIsTriedAgain(t *testing.T) {
	var asked atomic.Int64
	origin, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !isProbe(r) && asked.Add(1) == 1 {
			answerStatus(http.StatusServiceUnavailable)(w, r)
			return
		}
		serveManifest(w, r)
	})
	mirror, log := serve(t, serveManifest)
	got, err := resolve(t, Query{Order: OriginThenMirrors}, mirror.URL, origin.URL)
	if err != nil || got.Host != serverHost(origin) || got.OriginFailed != failure.None {
		t.Errorf("got %+v, %v", got, err)
	}
	wantRequests(t, log)
}

// An origin that does not answer leaves mirrors their share of the time; and once it is
// known to be in trouble, all of it but the wait for a probe.
func TestOriginLeavesTimeForMirrors(t *testing.T) {
	const budget = 8 * time.Second
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(t, fakeOptions(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host != registryName {
				return manifestAnswer(req), nil
			}
			<-req.Context().Done()
			return nil, req.Context().Err()
		}, "mirror.test", registryName))
		for _, tc := range []struct{ least, most time.Duration }{{budget / 8, budget / 2}, {0, time.Second}} {
			got, err := openAt(t, r, Query{Order: OriginThenMirrors}).Resolve(t.Context(), budget)
			if err != nil || got.Host != "mirror.test" || got.OriginFailed != failure.Unreachable {
				t.Fatalf("got %+v, %v", got, err)
			}
			if got.Elapsed < tc.least || got.Elapsed > tc.most {
				t.Errorf("took %s, want from %s to %s", got.Elapsed, tc.least, tc.most)
			}
		}
	})
}

// An origin that is in trouble is asked as the last resort, unless the caller has
// something else to use.
func TestOriginInTroubleIsTheLastResort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, well := 0, false
		r := newResolver(t, fakeOptions(func(req *http.Request) (*http.Response, error) {
			switch {
			case req.URL.Host != registryName && isProbe(req):
				return answer(req, http.StatusOK, nil, ""), nil
			case req.URL.Host != registryName:
				return answer(req, http.StatusNotFound, nil, ""), nil
			case !isProbe(req) && well:
				return manifestAnswer(req), nil
			case !isProbe(req):
				asked++
			}
			return answer(req, http.StatusServiceUnavailable, nil, ""), nil
		}, "mirror.test", registryName))
		const budget = 8 * time.Second
		_, err := openAt(t, r, Query{Order: OriginThenMirrors}).Resolve(t.Context(), budget)
		wantClass(t, err, failure.Unavailable)
		synctest.Wait()
		asked = 0
		_, err = openAt(t, r, Query{Order: OriginThenMirrors, Fallback: failure.SetOf(failure.Unavailable)}).Resolve(t.Context(), budget)
		wantClass(t, err, failure.Unavailable)
		if asked != 0 {
			t.Errorf("%d requests to an origin in trouble", asked)
		}
		well = true
		got, err := openAt(t, r, Query{Order: OriginThenMirrors}).Resolve(t.Context(), budget)
		if err != nil || got.Host != registryName || got.OriginFailed != failure.None {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// A host that the configuration shows who the node is gets the same questions as any.
func TestAbsentByNode(t *testing.T) {
	header := "[host.%q.header]\nX-Node = \"one\"\n"
	for name, test := range map[string]struct {
		lines   string
		headers http.Header
		q       Query
		want    string
	}{
		"absent":                  {"", nil, Query{Absent: true}, get},
		"by a header":             {header, nil, Query{Absent: true}, get},
		"by a header for all":     {"", http.Header{"X-Node": {"one"}}, Query{Absent: true}, get},
		"by a header, not absent": {header, nil, Query{}, head},
	} {
		server, log := serve(t, serveManifest)
		hosts := chain(server.URL)
		if test.lines != "" {
			hosts += fmt.Sprintf(test.lines, server.URL)
		}
		s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}, Headers: test.headers}, test.q)
		if _, err := s.Resolve(t.Context(), plenty); err != nil {
			t.Error(name, err)
		}
		t.Log(name)
		wantRequests(t, log, test.want)
	}
}
