// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// read reads a document from a source.
func read(t *testing.T, source Source, desc ocispec.Descriptor) (string, error) {
	t.Helper()
	return readIn(t.Context(), t, source, desc)
}

// readIn is read in a context.
func readIn(ctx context.Context, t *testing.T, source Source, desc ocispec.Descriptor) (string, error) {
	t.Helper()
	fetcher, err := source.Fetcher(ctx, imageRef)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := fetcher.Fetch(ctx, desc)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	return string(data), err
}

// The manifest of an absent image is asked for once, by its name, and the source has it with
// its host.
func TestAbsentIsOneRequest(t *testing.T) {
	for _, ref := range []string{imageRef, registryName + "/team/app@" + manifestDigest.String()} {
		server, log := serve(t, serveManifest)
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Reference: ref, Absent: true})
		got, err := s.Resolve(t.Context(), plenty)
		if err != nil {
			t.Fatal(err)
		}
		source := s.Source(got.Descriptor)
		if source.Delivered(manifestDigest) {
			t.Error("delivered before anybody has fetched it")
		}
		if data, err := read(t, source, got.Descriptor); err != nil || data != string(manifest) {
			t.Errorf("got %q, %v", data, err)
		}
		if served := source.ServedBy(manifestDigest).Hosts; !source.Delivered(manifestDigest) || len(served) != 1 || served[0] != serverHost(server) {
			t.Errorf("served by %v, delivered is %v", served, source.Delivered(manifestDigest))
		}
		_, tag, _ := strings.Cut(ref, "app")
		wantRequests(t, log, strings.Replace(get, "v1", tag[1:], 1))

		s.Close()
		again := s.Source(got.Descriptor)
		if _, err := read(t, again, got.Descriptor); err != nil {
			t.Error(err)
		}
		if n := len(log.list()); n != 2 {
			t.Errorf("%d requests after the end of the session, want 2", n)
		}
	}
}

// A session that has forgotten the manifest asks for it anew.
func TestForgottenManifestIsAskedForAnew(t *testing.T) {
	server, log := serve(t, serveManifest)
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Absent: true})
	got, err := s.Resolve(t.Context(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	s.Forget()
	if data, err := read(t, s.Source(got.Descriptor), got.Descriptor); err != nil || data != string(manifest) {
		t.Errorf("got %q, %v", data, err)
	}
	if n := len(log.list()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// What is not needed, is large, or has another size or digest is not kept.
func TestNotKept(t *testing.T) {
	long := []byte(`{"schemaVersion":2,"annotations":{"long":"` + strings.Repeat("x", maxKept) + `"}}`)
	for name, test := range map[string]struct {
		body []byte
		q    Query
		desc func(ocispec.Descriptor) ocispec.Descriptor
	}{
		"unchanged":      {manifest, Query{Absent: true, Known: manifestDigest}, nil},
		"long":           {long, Query{Absent: true}, nil},
		"another size":   {manifest, Query{Absent: true}, func(d ocispec.Descriptor) ocispec.Descriptor { d.Size++; return d }},
		"another digest": {manifest, Query{Absent: true}, func(d ocispec.Descriptor) ocispec.Descriptor { d.Digest = otherDigest; return d }},
	} {
		server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set(digestHeader, digest.FromBytes(test.body).String())
			_, _ = w.Write(test.body)
		})
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, test.q)
		got, err := s.Resolve(t.Context(), plenty)
		if err != nil {
			t.Fatal(name, err)
		}
		if test.desc != nil {
			got.Descriptor = test.desc(got.Descriptor)
		}
		if s.(*session).keptFor(got.Descriptor) != nil {
			t.Errorf("%s: it is kept", name)
		}
	}
}

// A host is asked for the manifest at once only where the pull would ask it first: sources,
// and their order, are those of a check by HEAD.
func TestAbsentFromSeveralHosts(t *testing.T) {
	missing := answerStatus(http.StatusNotFound)
	for name, test := range map[string]struct {
		mirror         http.HandlerFunc
		lines          string
		q              Query
		originAlone    bool // it is the only one that is allowed
		mirrorRequests []string
		originRequests []string
	}{
		"the mirror has it":          {serveManifest, "", Query{}, false, []string{get}, nil},
		"the mirror lacks it":        {missing, "", Query{}, false, []string{get}, []string{get}},
		"the mirror lies":            {with(digestHeader, otherDigest.String()), "", Query{}, false, []string{get}, []string{get}},
		"the mirror must not":        {serveManifest, "capabilities = [\"pull\"]\n", Query{}, false, nil, []string{head}},
		"only the origin":            {serveManifest, "", Query{Order: OriginOnly}, false, nil, []string{head}},
		"mirrors in need":            {serveManifest, "", Query{Order: OriginThenMirrors}, false, nil, []string{head}},
		"the mirror is not allowed":  {serveManifest, "", Query{}, true, nil, []string{get}},
		"the caller has it, changed": {serveManifest, "", Query{Known: otherDigest}, false, []string{head}, nil},
	} {
		mirror, mirrorLog := serve(t, test.mirror)
		origin, originLog := serve(t, serveManifest)
		hosts := chain(mirror.URL, origin.URL) + test.lines
		if test.originAlone {
			test.q.Allow = func(host string) bool { return host == serverHost(origin) }
		}
		test.q.Absent = test.q.Known == ""
		s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, test.q)
		got, err := s.Resolve(t.Context(), plenty)
		if err != nil || got.Descriptor.Digest != manifestDigest {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		t.Log(name)
		wantRequests(t, mirrorLog, test.mirrorRequests...)
		wantRequests(t, originLog, test.originRequests...)
	}
}

// A registry whose manifest is slow to come is asked for the digest, in the time that is
// left: the pull has more time for the manifest.
func TestSlowManifestOfTheAbsent(t *testing.T) {
	t.Parallel()
	server, log := serve(t, quarantined(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Absent: true})
	got, err := s.Resolve(t.Context(), 10*time.Second)
	if err != nil || got.Descriptor.Digest != manifestDigest || s.(*session).keptFor(got.Descriptor) != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	wantRequests(t, log, get, head)

	// Where manifests have to be read, that is no answer.
	s = open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Absent: true, ReadManifest: true})
	_, err = s.Resolve(t.Context(), 2*time.Second)
	wantClass(t, err, failure.Unreachable)
	wantRequests(t, log, get, head, get)
}

// whenAskedByHead answers GET as next does when HEAD has been sent as well, which is when half
// of the time is over, and never HEAD.
func whenAskedByHead(next http.HandlerFunc) http.HandlerFunc {
	asked := make(chan struct{})
	byHead := sync.OnceFunc(func() { close(asked) })
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isHead(r):
			byHead()
			<-r.Context().Done()
		case !isProbe(r):
			<-asked
			next(w, r)
		}
	}
}

// A registry that is slow for GET and HEAD alike has all of its time for either.
func TestSlowAnswerOfTheAbsent(t *testing.T) {
	t.Parallel()
	server, log := serve(t, whenAskedByHead(serveManifest))
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Absent: true})
	got, err := s.Resolve(t.Context(), 10*time.Second)
	if err != nil || got.Descriptor.Digest != manifestDigest || s.(*session).keptFor(got.Descriptor) == nil {
		t.Errorf("got %+v, %v", got, err)
	}
	wantRequests(t, log, get, head)
}

// A host that answers neither GET nor HEAD has been silent for the time of both: who has no
// more time does not ask it again.
func TestSilenceOfBoth(t *testing.T) {
	t.Parallel()
	server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !isProbe(r) {
			<-r.Context().Done()
		}
	})
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}})
	for _, q := range []Query{{Absent: true}, {Absent: true, Fallback: failure.SetOf(failure.Unreachable)}} {
		_, err := openAt(t, r, q).Resolve(t.Context(), 4*time.Second)
		wantClass(t, err, failure.Unreachable)
	}
	wantRequests(t, log, get, head)
}

// A host that refuses the manifest alone is asked for the digest, as before a change; its
// "not found" is an answer, but where it would end the check.
func TestManifestOfTheAbsentIsRefused(t *testing.T) {
	for code, test := range map[int]struct {
		authority bool
		want      []string
	}{
		http.StatusForbidden:          {false, []string{get, head}},
		http.StatusPreconditionFailed: {false, []string{get, head}},
		http.StatusMethodNotAllowed:   {false, []string{get, head}},
		http.StatusNotFound:           {false, []string{get}},
		http.StatusGone:               {true, []string{get, head}},
	} {
		server, log := serve(t, quarantined(answerStatus(code)))
		q := Query{Absent: true, Authority: func(string) bool { return test.authority }}
		got, err := resolve(t, q, server.URL)
		if found := err == nil && got.Descriptor.Digest == manifestDigest; found != (len(test.want) == 2) {
			t.Errorf("%d: got %+v, %v", code, got, err)
		}
		wantRequests(t, log, test.want...)
	}
}

// A registry that limits GET, or fails it, is asked by HEAD, and its refusal of that counts.
func TestFailedGETOfTheAbsent(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if isHead(r) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			answerStatus(code)(w, r)
		})
		_, err := resolve(t, Query{Absent: true}, server.URL)
		wantClass(t, err, failure.Forbidden)
		wantRequests(t, log, get, head)
	}
}

// Each cause of a failed check has the class that it has of HEAD.
func TestCausesOfTheAbsent(t *testing.T) {
	for name, test := range causesOfARegistry {
		server, _ := serve(t, test.handler)
		_, err := resolve(t, Query{Absent: true}, server.URL)
		if name != "digest only on HEAD is wrong" {
			wantClass(t, err, test.class)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
