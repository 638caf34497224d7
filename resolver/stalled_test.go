// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A transfer that containerd ended for lack of progress is unreachable, also
// where nothing was asked for at the end, and where a failure was to be tried
// again; only a refusal counts more.
func TestStalledPull(t *testing.T) {
	list, hosts := registries(t, 2)
	// The hosts that are left out are named, however the pull has failed.
	left := strings.TrimPrefix(list[0].URL(), "http://")
	one := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{Allow: func(host string) bool { return host != left }})
	if e := one.Source(ocispec.Descriptor{Digest: manifestDigest}).Failure(ErrNoProgress); !slices.Equal(e.LeftOut, []string{left}) {
		t.Errorf("left out: %q", e.LeftOut)
	}
	s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	desc := ocispec.Descriptor{Digest: manifestDigest, Size: int64(len(manifest)), MediaType: ocispec.MediaTypeImageManifest}
	for code, class := range map[int]failure.Class{
		0:                             failure.Unreachable,
		http.StatusServiceUnavailable: failure.Unreachable,
		http.StatusNotFound:           failure.Unreachable,
		http.StatusForbidden:          failure.Forbidden,
	} {
		source := s.Source(desc)
		if code != 0 {
			undo := list[1].Status(resolvertest.Manifests, code)
			undoMirror := list[0].Status(resolvertest.Manifests, code)
			fetcher, err := source.Fetcher(t.Context(), imageRef)
			if err != nil {
				t.Fatal(err)
			}
			if rc, err := fetcher.Fetch(t.Context(), desc); err == nil {
				_, _ = io.ReadAll(rc)
				_ = rc.Close()
			}
			undo()
			undoMirror()
		}
		err := fmt.Errorf("%w: unpacking was cut short", ErrNoProgress)
		if e := wantClass(t, source.Failure(err), class); len(e.Attempts) == 0 {
			t.Errorf("%d: nobody is named: %v", code, e)
		}
	}
}
