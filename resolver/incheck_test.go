// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

const checkTime = 5 * time.Second

// documentRead is what became of a manifest that was fetched.
type documentRead struct {
	took  time.Duration
	class failure.Class // None = it was given
	error *Error
}

// readDocument fetches a manifest from a source, as a part of a check where within is more than 0.
func readDocument(ctx context.Context, t *testing.T, source Source, data string, within time.Duration) (r documentRead) {
	t.Helper()
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = InCheck(ctx, within)
		defer cancel()
	}
	start := time.Now()
	f, err := source.Fetcher(ctx, imageRef)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := f.Fetch(ctx, ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(data), Size: int64(len(data)),
	})
	if err == nil {
		_, err = io.ReadAll(rc)
		_ = rc.Close()
	}
	if r.took = time.Since(start); err != nil {
		r.class = failure.Unreachable // of nobody's, where no host is at fault
		if r.error = source.Failure(err); r.error != nil {
			r.class = r.error.Class
		}
	}
	return r
}

// dripping gives the manifest, of which each byte takes half a second.
func dripping(req *http.Request) (*http.Response, error) {
	resp := manifestAnswer(req)
	resp.Body = &slowly{resp.Body, req}
	return resp, nil
}

type slowly struct {
	io.ReadCloser
	req *http.Request
}

func (s *slowly) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second / 2):
		return s.ReadCloser.Read(p[:1])
	case <-s.req.Context().Done():
		return 0, s.req.Context().Err()
	}
}

// A manifest that is read in a check comes from the registry, or is refused by it, once a mirror has let its share pass,
// however it does so; what the registry says then is the last word.
func TestMirrorHasOneShareOfACheck(t *testing.T) {
	const tokens, storage = "auth.test", "storage.test"
	wants := answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://`+tokens+`/token",service="x",scope="repository:team/app:pull"`)
	for name, mirror := range map[string]scripted{
		"no answer":           mute,
		"a header alone":      stall(http.StatusOK, nil, ""),
		"not to its end":      stall(http.StatusOK, nil, string(manifest[:20])),
		"byte by byte":        dripping,
		"no token":            wants,
		"its storage is mute": answering(http.StatusTemporaryRedirect, "Location", "http://"+storage+"/x"),
		"each step is late":   after(checkTime/4, wants),
		"byte by byte, and endless": func(req *http.Request) (*http.Response, error) {
			resp, err := dripping(req)
			resp.ContentLength = 1 << 30
			return resp, err
		},
	} {
		for says, registry := range map[failure.Class]scripted{
			failure.None: fine, failure.Forbidden: answering(http.StatusForbidden), failure.NotFound: answering(http.StatusNotFound),
		} {
			t.Run(name+", "+string(says), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n fakeNet
					n.set(mirrorName, mirror)
					n.set(tokens, mute)
					n.set(storage, mute)
					n.set(registryName, registry)
					s := openAt(t, newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName)), Query{})
					got := readDocument(t.Context(), t, s.Source(ocispec.Descriptor{}), string(manifest), checkTime)
					if got.class != says || got.took != checkTime/2 {
						t.Errorf("%s after %v, %v", got.class, got.took, got.error)
					}
				})
			})
		}
	}
}

// A host that lets its share pass has timed out, the last one too: it is probed, and not waited for by those who have
// hardly more time. A share that is short, or a client that goes away, keeps nobody else from asking.
func TestSharesAreTimeOuts(t *testing.T) {
	for name, test := range map[string]struct {
		within time.Duration // of the check
		client time.Duration // its own time; 0 = as much as it likes
		waits  time.Duration // how long the next one waits who has checkTime
	}{
		"its share":         {checkTime, 0, 0},
		"its share is 50ms": {checkTime / 50, 0, checkTime / 2},
		"the client's time": {checkTime, checkTime / 50, checkTime / 2},
		"no check":          {0, 2 * time.Second, checkTime / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(mirrorName, scripted(besideProbes(roundTrip(mute))))
				n.set(registryName, fine)
				r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
				ctx := t.Context()
				if test.client > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.client)
					defer cancel()
				}
				readDocument(ctx, t, openAt(t, r, Query{}).Source(ocispec.Descriptor{}), string(manifest), test.within)
				synctest.Wait()
				next := readDocument(t.Context(), t, openAt(t, r, Query{}).Source(ocispec.Descriptor{}), string(manifest), checkTime)
				if next.class != failure.None || next.took != test.waits {
					t.Errorf("the next one waited %v: %s", next.took, next.class)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, mute)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		got := readDocument(t.Context(), t, openAt(t, r, Query{}).Source(ocispec.Descriptor{}), string(manifest), checkTime)
		if got.took != checkTime {
			t.Errorf("the last host had %v", got.took)
		}
		start := time.Now()
		_, err := once(t.Context(), r, Query{Fallback: failure.SetOf(failure.Unreachable)}, checkTime)
		wantClass(t, err, failure.Unreachable)
		if took := time.Since(start); took > time.Second/2 {
			t.Errorf("the next check waited for it for %v", took)
		}
	})
}

// A mirror that has let its share of one document pass is not asked for the next, and three hosts have a third each.
func TestSharesOfSeveralDocuments(t *testing.T) {
	const second = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","layers":[]}`
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set("first.test", mute)
		n.set(mirrorName, mute)
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if d := digest.FromString(second); req.URL.Path == "/v2/team/app/manifests/"+d.String() {
				return answer(req, http.StatusOK, http.Header{"Content-Type": {ocispec.MediaTypeImageManifest}}, second), nil
			}
			return fine(req)
		})
		source := openAt(t, newResolver(t, fakeOptions(n.roundTrip, "first.test", mirrorName, registryName)), Query{}).Source(ocispec.Descriptor{})
		ctx, cancel := InCheck(t.Context(), 6*time.Second)
		defer cancel()
		if got := readDocument(ctx, t, source, string(manifest), 0); got.class != failure.None || got.took != 4*time.Second {
			t.Errorf("%s after %v", got.class, got.took)
		}
		if got := readDocument(ctx, t, source, second, 0); got.class != failure.None || got.took != 0 {
			t.Errorf("the next document: %s after %v", got.class, got.took)
		}
	})
}

// A registry that alone may answer has all of the time, also where hosts.toml has mirrors behind it.
func TestOnlyHostOfACheckHasAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, after(checkTime-1, fine))
		n.set(mirrorName, mute)
		s := openAt(t, newResolver(t, fakeOptions(n.roundTrip, registryName, mirrorName)), Query{Order: OriginThenMirrors})
		got := readDocument(t.Context(), t, s.Source(ocispec.Descriptor{}).Answering(registryName), string(manifest), checkTime)
		if got.class != failure.None {
			t.Errorf("%s after %v, %v", got.class, got.took, got.error)
		}
	})
}

// A registry that hangs where it should give the manifest is unreachable, whatever a mirror before it has said.
func TestRegistryThatHangsInACheckIsUnreachable(t *testing.T) {
	for _, code := range []int{401, 403, 404, 412, 500} {
		synctest.Test(t, func(t *testing.T) {
			var n fakeNet
			n.set(mirrorName, answering(code))
			n.set(registryName, mute)
			s := openAt(t, newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName)), Query{})
			got := readDocument(t.Context(), t, s.Source(ocispec.Descriptor{}), string(manifest), checkTime)
			if got.class != failure.Unreachable || got.took != checkTime {
				t.Errorf("%d: %s after %v: %v", code, got.class, got.took, got.error)
			}
		})
	}
}

// A registry is asked once, also behind a mirror that lets its share pass: its refusal counts, and not what it would say
// after that.
func TestFirstWordOfACheckCounts(t *testing.T) {
	for name, later := range map[string]scripted{
		"the same":          answering(http.StatusNotFound),
		"unavailable":       answering(http.StatusServiceUnavailable),
		"too many requests": answering(http.StatusTooManyRequests),
		"no answer":         func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET },
		"late":              after(checkTime/2-11*time.Millisecond, answering(http.StatusServiceUnavailable)),
	} {
		for code, want := range map[int]failure.Class{http.StatusNotFound: failure.NotFound, http.StatusPreconditionFailed: failure.Invalid} {
			t.Run(fmt.Sprintf("%d, then %s", code, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n fakeNet
					n.set(mirrorName, mute)
					n.set(registryName, scripted(besideProbes(func(req *http.Request) (*http.Response, error) {
						n.set(registryName, scripted(besideProbes(roundTrip(later))))
						return answering(code)(req)
					})))
					s := openAt(t, newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName)), Query{})
					got := readDocument(t.Context(), t, s.Source(ocispec.Descriptor{}), string(manifest), checkTime)
					asked := slices.DeleteFunc(n.asked(), func(s string) bool { return s != "GET "+registryName })
					if got.class != want || len(asked) != 1 {
						t.Errorf("%s after %v, asked %d times", got.class, got.took, len(asked))
					}
				})
			})
		}
	}
}
