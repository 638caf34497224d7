// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// That the tag is answered is told before anything else is waited for: its bytes, or the manifest
// in the index. Refusals and failures are no answers.
func TestAnsweredIsToldAtOnce(t *testing.T) {
	index := []byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `"}`)
	told := make(chan struct{}, 9)
	refuses, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if len(told) > 0 {
			t.Error("told before any answer")
		}
		answerStatus(http.StatusForbidden)(w, r)
	})
	answers, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/v1") {
			serveManifest(w, r)
			return
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		w.Header().Set(digestHeader, digest.FromBytes(index).String())
		w.Header().Set("Content-Length", strconv.Itoa(len(index)))
		if isHead(r) {
			return
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-told
		_, _ = w.Write(index)
	})
	for name, q := range map[string]Query{
		"a digest":              {Known: manifestDigest},
		"an absent image":       {Absent: true},
		"a manifest":            {ReadManifest: true},
		"a manifest, and inner": {ReadManifest: true, Nested: Nested{digest.FromBytes(index), manifestDigest}},
	} {
		q.Answered = func() { told <- struct{}{} }
		if got, err := resolve(t, q, refuses.URL, answers.URL); err != nil || got.Descriptor.Digest != digest.FromBytes(index) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		for len(told) > 0 {
			<-told
		}
	}
	if _, err := resolve(t, Query{}, answers.URL); err != nil {
		t.Errorf("without anybody to tell: %v", err)
	}
}

// That a tag is redirected is told before where it leads has answered: the registry has said which
// manifest it is.
func TestAnsweredIsToldByARedirect(t *testing.T) {
	told := make(chan struct{}, 9)
	storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-told
		serveManifest(w, r)
	})
	registry, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for len(told) > 0 {
			<-told
		}
		http.Redirect(w, r, storage.URL+"/"+manifestDigest.String(), http.StatusTemporaryRedirect)
	})
	for name, q := range map[string]Query{"a digest": {Known: manifestDigest}, "an absent image": {Absent: true}, "a manifest": {ReadManifest: true}} {
		q.Answered = func() { told <- struct{}{} }
		if got, err := resolve(t, q, registry.URL); err != nil || got.Descriptor.Digest != manifestDigest {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
