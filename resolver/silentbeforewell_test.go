// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A registry that was in trouble minutes ago, and is well, gives what a silent mirror before it does
// not go on with, within the time that a pull may be without a byte.
func TestSilentMirrorBeforeARegistryThatIsWellAgain(t *testing.T) {
	for name, mirror := range map[string]scripted{
		"in the middle of a layer": blobs(stall(http.StatusOK, nil, "la")),
		"before its first byte":    blobs(stall(http.StatusOK, nil, "")),
		"at all":                   blobs(mute),
	} {
		for _, trouble := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the registry was in trouble: %v", name, trouble), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { layersBehindASilentMirror(t, mirror, trouble) })
			})
		}
	}
}

func layersBehindASilentMirror(t *testing.T, mirror scripted, trouble bool) {
	var n fakeNet
	options := fakeOptions(n.roundTrip, mirrorName, registryName)
	options.ProgressTimeout = 5 * time.Minute
	r := newResolver(t, options)
	n.set(mirrorName, answering(http.StatusNotFound))
	n.set(registryName, blobs(layerAnswer))
	if trouble {
		wasInTrouble(t, r, &n, registryName, blobs(layerAnswer))
	}
	n.set(mirrorName, mirror)
	s := openAt(t, r, Query{Absent: true})
	if found, err := s.Resolve(t.Context(), 5*time.Second); err != nil || found.Host != mirrorName {
		t.Fatalf("got %+v, %v", found, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), options.ProgressTimeout+time.Second)
	defer cancel()
	f, err := s.Source(manifestDesc).Fetcher(ctx, imageRef)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		began := time.Now()
		rc, err := f.Fetch(ctx, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString(fmt.Sprint(i)), Size: 5})
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(rc)
		_ = rc.Close()
		if err != nil || string(data) != "layer" {
			t.Fatalf("layer %d: %q, %v after %v; asked %q", i, data, err, time.Since(began), n.asked())
		}
	}
}

// A registry that is in trouble as a mirror before it falls silent, and is well again in time, gives what
// the mirror does not go on with, within the time that a pull may be without a byte.
func TestRegistryRecoversWhileAMirrorIsSilent(t *testing.T) {
	for _, after := range []time.Duration{0, 30 * time.Second, 80 * time.Second, 140 * time.Second, 200 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				options := fakeOptions(n.roundTrip, mirrorName, registryName)
				options.ProgressTimeout = 5 * time.Minute
				r := newResolver(t, options)
				n.set(mirrorName, answering(http.StatusNotFound))
				n.set(registryName, blobs(layerAnswer))
				wasInTrouble(t, r, &n, registryName, blobs(layerAnswer))
				n.set(registryName, mute)
				n.set(mirrorName, blobs(stall(http.StatusOK, nil, "la")))
				s := openAt(t, r, Query{Absent: true})
				if found, err := s.Resolve(t.Context(), plenty); err != nil || found.Host != mirrorName {
					t.Fatalf("got %+v, %v", found, err)
				}
				time.AfterFunc(after, func() { n.set(registryName, blobs(layerAnswer)) })
				if data, took, err := readLayer(t, s, []byte("layer")); err != nil || string(data) != "layer" || took >= options.ProgressTimeout {
					t.Errorf("%q, %v after %v; asked %q", data, err, took, n.asked())
				}
			})
		})
	}
}
