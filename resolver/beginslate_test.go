// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// blobs has a host answer so where it is asked for layers and configs, and give the manifest.
func blobs(then scripted) scripted {
	return func(req *http.Request) (*http.Response, error) {
		if getsBlob(req) {
			return then(req)
		}
		return manifestAnswer(req), nil
	}
}

// layerAnswer gives a layer of five bytes.
func layerAnswer(req *http.Request) (*http.Response, error) {
	return answer(req, http.StatusOK, nil, "layer"), nil
}

// fetchLayers fetches layers of five bytes one after the other, and returns how long each took. The
// node takes so long for one.
func fetchLayers(t *testing.T, r *Resolver, n int, each time.Duration) (took []time.Duration) {
	t.Helper()
	s := openAt(t, r, Query{})
	desc := manifestDesc
	f, err := s.Source(desc).Fetcher(t.Context(), imageRef)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		rc, err := f.Fetch(t.Context(), ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString(fmt.Sprint(i)), Size: 5,
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if data, err := io.ReadAll(rc); err != nil || string(data) != "layer" {
			t.Errorf("layer %d: %q, %v", i, data, err)
		}
		took = append(took, time.Since(start))
		time.Sleep(each)
		_ = rc.Close()
	}
	return took
}

// A mirror has its share of the pull's patience until the first byte of a layer comes, whatever it
// does meanwhile. Then the registry gives this layer and all others.
func TestMirrorThatBeginsNoLayer(t *testing.T) {
	const (
		tokens   = "auth.test"
		patience = 5 * time.Second
	)
	wants := answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://`+tokens+`/token",service="x",scope="repository:team/app:pull"`)
	token := func(req *http.Request) (*http.Response, error) {
		return answer(req, http.StatusOK, nil, `{"token":"t"}`), nil
	}
	guarded := func(then scripted) scripted {
		return func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("Authorization") == "" {
				return after(2*time.Second, wants)(req)
			}
			return then(req)
		}
	}
	around := func(req *http.Request) (*http.Response, error) {
		return answering(http.StatusTemporaryRedirect, "Location", "http://"+mirrorName+req.URL.Path)(req)
	}
	for name, test := range map[string]struct{ mirror, tokens scripted }{
		"no answer":            {mute, token},
		"no token":             {guarded(layerAnswer), mute},
		"no end of a token":    {guarded(layerAnswer), after(2*time.Second, stall(http.StatusOK, nil, `{"token":`))},
		"each step is late":    {guarded(after(2*time.Second, layerAnswer)), after(2*time.Second, token)},
		"redirects are late":   {after(time.Second, around), token},
		"a redirect stalls":    {after(4*time.Second, stall(http.StatusTemporaryRedirect, http.Header{"Location": {"/v2/x"}}, "")), token},
		"a late header alone":  {after(2*time.Second, stall(http.StatusOK, nil, "")), token},
		"a header at the last": {guarded(after(3*time.Second-1, stall(http.StatusOK, nil, ""))), token},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(mirrorName, blobs(test.mirror))
				n.set(tokens, test.tokens)
				n.set(registryName, layerAnswer)
				options := fakeOptions(n.roundTrip, mirrorName, registryName)
				options.ProgressTimeout = 2 * patience
				took := fetchLayers(t, newResolver(t, options), 4, time.Minute)
				if took[0] > patience || took[0] < patience-time.Second {
					t.Errorf("the first layer took %v, want %v", took[0], patience)
				}
				for _, later := range took[1:] {
					if later > 0 {
						t.Errorf("then a layer took %v", later)
					}
				}
			})
		})
	}
}

// A storage service that says nothing, to which a mirror that is well leads, costs a pull one
// time-out, however long its layers take.
func TestStorageServiceThatHangsBehindAMirror(t *testing.T) {
	const storage = "storage.test"
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		asked := 0
		n.set(mirrorName, blobs(func(req *http.Request) (*http.Response, error) {
			return answering(http.StatusTemporaryRedirect, "Location", "http://"+storage+req.URL.Path)(req)
		}))
		n.set(storage, func(req *http.Request) (*http.Response, error) {
			asked++
			return after(30*time.Second, func(*http.Request) (*http.Response, error) {
				return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
			})(req)
		})
		n.set(registryName, layerAnswer)
		took := fetchLayers(t, newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName)), 8, 45*time.Second)
		if asked != 1 || took[0] != 30*time.Second {
			t.Errorf("it was asked %d times; the layers took %v", asked, took)
		}
		if log := strings.Join(n.asked(), " "); strings.Count(log, mirrorName) != 1 {
			t.Errorf("requests: %s", log)
		}
	})
}
