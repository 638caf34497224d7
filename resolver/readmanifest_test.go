// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// quarantined answers HEAD as if all was well, and GET with that.
func quarantined(refusal http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if isHead(r) {
			serveManifest(w, r)
			return
		}
		refusal(w, r)
	}
}

// A refusal of the manifest is the answer of a check that reads it, with its class and its
// reason, in one request. A check of the digest alone does not see it.
func TestManifestIsRefused(t *testing.T) {
	for code, want := range map[int]struct {
		class   failure.Class
		refused bool
	}{
		401: {failure.Unauthorized, true},
		403: {failure.Forbidden, true},
		404: {failure.NotFound, false},
		410: {failure.NotFound, false},
		412: {failure.Invalid, false}, // Harbor's
		451: {failure.Invalid, false},
	} {
		server, log := serve(t, quarantined(answerStatus(code)))
		if got, err := resolve(t, Query{Known: manifestDigest}, server.URL); err != nil || got.Descriptor.Digest != manifestDigest {
			t.Errorf("%d, the digest alone: got %+v, %v", code, got, err)
		}
		for _, ref := range []string{imageRef, registryName + "/team/app@" + manifestDigest.String()} {
			_, err := resolve(t, Query{Reference: ref, Known: manifestDigest, ReadManifest: true}, server.URL)
			e := wantClass(t, err, want.class)
			if refused := len(e.Refusals()) == 1; refused != want.refused {
				t.Errorf("%d: refused is %v", code, refused)
			}
			if code != 401 && code != 404 && !strings.Contains(e.Error(), "on purpose") {
				t.Errorf("%d: no reason in %q", code, e)
			}
		}
		wantRequests(t, log, head, get, strings.Replace(get, "v1", manifestDigest.String(), 1))
	}
}

// Every other cause has the class that it has of HEAD.
func TestCausesWithManifest(t *testing.T) {
	for name, test := range causesOfARegistry {
		server, _ := serve(t, test.handler)
		_, err := resolve(t, Query{ReadManifest: true}, server.URL)
		if name != "digest only on HEAD is wrong" {
			wantClass(t, err, test.class)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An answer is that of the bytes, whatever its header says.
func TestManifestHasItsDigest(t *testing.T) {
	long := digest.SHA512.FromBytes(manifest)
	for name, test := range map[string]struct {
		header string
		known  digest.Digest
		class  failure.Class
		want   digest.Digest
	}{
		"unchanged":                {manifestDigest.String(), manifestDigest, failure.None, manifestDigest},
		"changed":                  {manifestDigest.String(), otherDigest, failure.None, manifestDigest},
		"absent":                   {manifestDigest.String(), "", failure.None, manifestDigest},
		"no header":                {"", manifestDigest, failure.None, manifestDigest},
		"claims to be unchanged":   {otherDigest.String(), otherDigest, failure.Invalid, ""},
		"claims to be changed":     {otherDigest.String(), manifestDigest, failure.Invalid, ""},
		"of another algorithm":     {long.String(), manifestDigest, failure.None, long},
		"wrong, another algorithm": {digest.SHA512.FromString("x").String(), manifestDigest, failure.Invalid, ""},
	} {
		server, log := serve(t, with(digestHeader, test.header))
		got, err := resolve(t, Query{Known: test.known, ReadManifest: true}, server.URL)
		wantRequests(t, log, get)
		if test.class != failure.None {
			wantClass(t, err, test.class)
			continue
		}
		want := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: test.want, Size: int64(len(manifest))}
		if err != nil || got.Descriptor.Digest != want.Digest || got.Descriptor.Size != want.Size || got.Descriptor.MediaType != want.MediaType {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// Where the tag is still the index that the node has, the manifest that runs is read too.
func TestNestedManifestIsRead(t *testing.T) {
	index := []byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `"}`)
	indexDigest := digest.FromBytes(index)
	nested := strings.Replace(get, "v1", manifestDigest.String(), 1)
	answers := func(manifest http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/v1") || strings.HasSuffix(r.URL.Path, indexDigest.String()) {
				w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
				w.Header().Set(digestHeader, indexDigest.String())
				_, _ = w.Write(index)
				return
			}
			manifest(w, r)
		}
	}
	for name, test := range map[string]struct {
		manifest http.HandlerFunc
		of       digest.Digest // the index of which the node has it
		class    failure.Class
		requests []string
	}{
		"well":                   {serveManifest, indexDigest, failure.None, []string{get, nested}},
		"without a type":         {with("Content-Type", ""), indexDigest, failure.None, []string{get, nested}},
		"of another index":       {answerStatus(403), otherDigest, failure.None, []string{get}},
		"refused":                {answerStatus(403), indexDigest, failure.Forbidden, []string{get, nested}},
		"gone":                   {answerStatus(404), indexDigest, failure.NotFound, []string{get, nested}},
		"refused by Harbor":      {answerStatus(412), indexDigest, failure.Invalid, []string{get, nested}},
		"other bytes":            {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }, indexDigest, failure.Invalid, []string{get, nested}},
		"another, with a digest": {with(digestHeader, otherDigest.String()), indexDigest, failure.Invalid, []string{get, nested}},
	} {
		server, log := serve(t, answers(test.manifest))
		got, err := resolve(t, Query{Known: test.of, ReadManifest: true, Nested: Nested{test.of, manifestDigest}}, server.URL)
		wantRequests(t, log, test.requests...)
		if test.class != failure.None {
			wantClass(t, err, test.class)
		} else if err != nil || got.Descriptor.Digest != indexDigest || got.Descriptor.MediaType != ocispec.MediaTypeImageIndex || !got.Anonymous {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}

	// A mirror that refuses it has not answered; nobody's digest is asked for by HEAD.
	mirror, _ := serve(t, answers(answerStatus(403)))
	origin, log := serve(t, answers(serveManifest))
	got, err := resolve(t, Query{ReadManifest: true, Nested: Nested{indexDigest, manifestDigest}}, mirror.URL, origin.URL)
	if err != nil || got.Host != serverHost(origin) || len(got.Attempts) != 1 || got.Attempts[0].Class != failure.Forbidden {
		t.Errorf("got %+v, %v", got, err)
	}
	wantRequests(t, log, get, nested)
	server, log := serve(t, answers(answerStatus(403)))
	if _, err := resolve(t, Query{Known: indexDigest, Nested: Nested{indexDigest, manifestDigest}}, server.URL); err != nil {
		t.Error(err)
	}
	wantRequests(t, log, head)
}

// Credentials that either request was shown count.
func TestNestedManifestOfTheNamed(t *testing.T) {
	index := []byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `"}`)
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch _, secret, _ := r.BasicAuth(); {
		case strings.HasSuffix(r.URL.Path, "/v1"):
			w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
			_, _ = w.Write(index)
		case secret == password:
			serveManifest(w, r)
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	q := Query{Credentials: alice, ReadManifest: true, Nested: Nested{digest.FromBytes(index), manifestDigest}}
	if got, err := resolve(t, q, server.URL); err != nil || got.Anonymous {
		t.Errorf("got %+v, %v", got, err)
	}
}

// endless is a body of which more comes for ever, a piece each time.
type endless struct {
	req   *http.Request
	pause time.Duration
}

func (e endless) Read(p []byte) (int, error) {
	select {
	case <-e.req.Context().Done():
		return 0, e.req.Context().Err()
	case <-time.After(e.pause):
		clear(p)
		return len(p), nil
	}
}

// A manifest that never ends is bounded in size, and one that does not come in time; a
// host that begins answers and does not end them is found out as one that is silent is.
func TestManifestsWithoutEnd(t *testing.T) {
	for name, test := range map[string]struct {
		pause time.Duration
		class failure.Class
		says  string
	}{
		"more and more": {0, failure.Invalid, "a manifest of more than"},
		"slowly":        {time.Second, failure.Unreachable, "no answer within 4s"},
		"stalled":       {time.Hour, failure.Unreachable, "no answer within 4s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, func(req *http.Request) (*http.Response, error) {
					if isProbe(req) {
						return mute(req)
					}
					resp := answer(req, http.StatusOK, http.Header{"Content-Type": {ocispec.MediaTypeImageManifest}}, "")
					resp.Body, resp.ContentLength = io.NopCloser(endless{req, test.pause}), -1
					return resp, nil
				})
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				start := time.Now()
				_, err := once(t.Context(), r, Query{ReadManifest: true}, 4*time.Second)
				if e := wantClass(t, err, test.class); !strings.Contains(e.Error(), test.says) {
					t.Error(e)
				}
				if elapsed := time.Since(start); elapsed > 4*time.Second {
					t.Errorf("took %s", elapsed)
				}
				time.Sleep(health.ProbeTime)
				synctest.Wait()
				if got := r.health.Blocked(health.KeyOf("http", registryName)); got != (test.class == failure.Unreachable) {
					t.Errorf("open is %v: %+v", got, r.Troubled())
				}
			})
		})
	}
}

// A manifest that says itself that it is too long is not read.
func TestLongManifestIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeOptions(besideProbes(func(req *http.Request) (*http.Response, error) {
			resp := answer(req, http.StatusOK, http.Header{"Content-Type": {ocispec.MediaTypeImageManifest}}, "")
			resp.Body, resp.ContentLength = io.NopCloser(endless{req, time.Hour}), docker.MaxManifestSize+1
			return resp, nil
		}), registryName), Query{ReadManifest: true})
		start := time.Now()
		_, err := s.Resolve(t.Context(), plenty)
		wantClass(t, err, failure.Invalid)
		if elapsed := time.Since(start); elapsed > 0 {
			t.Errorf("took %s", elapsed)
		}
	})
}
