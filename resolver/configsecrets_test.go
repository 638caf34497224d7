// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A registry writes a secret into a config, of which CRI makes lines of its log, and errors, when nobody knows the
// secret any more. What CRI does not tell, and a word that is a password by chance, is nobody's business.
func TestConfigsWithSecrets(t *testing.T) {
	const secret = "Summer2024xyz"
	for _, tc := range []struct {
		what, secret, config string
		refused              bool
	}{
		{"nothing of it", secret, `{"Entrypoint":["/app"]}`, false},
		{"a label", secret, `{"Labels":{"containerd.io/` + secret + `":""}}`, true},
		{"a user", secret, `{"User":"` + strings.ToLower(secret) + `"}`, true},
		{"an escaped one", "Summer/2024/xyz", `{"Volumes":{"/Summer%2F2024%2Fxyz":{}}}`, true},
		{"a variable", secret, `{"Env":["A=` + secret + `"]}`, false},
		{"a word", "postgres", `{"User":"postgres","Volumes":{"/var/lib/postgresql":{}},"Entrypoint":["postgres"]}`, false},
		{"a phrase", "correct-horse-battery", `{"User":"correct-horse-battery"}`, true},
	} {
		body := `{"architecture":"amd64","os":"linux","config":` + tc.config + `}`
		server, _ := serve(t, toldByBasic(func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, body) }))
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as("alice", tc.secret)})
		src := s.Source(manifestDesc)
		f, err := src.Fetcher(t.Context(), imageRef)
		if err != nil {
			t.Fatal(err)
		}
		rc, err := f.Fetch(t.Context(), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromString(body), Size: int64(len(body))})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(rc)
		_ = rc.Close()
		if (err != nil) != tc.refused || err == nil && string(got) != body {
			t.Errorf("%s: got %q, %v", tc.what, got, err)
		}
		if err == nil {
			continue
		}
		if failed := src.Failure(err); failed == nil || failed.Class != failure.Invalid || strings.Contains(strings.ToLower(failed.Error()+err.Error()), strings.ToLower(tc.secret)) {
			t.Errorf("%s: it has failed by %v", tc.what, failed)
		}
	}
}

// A config that was fetched as something else, or is on the node already, is looked at as well.
func TestCheckConfig(t *testing.T) {
	const secret = "Summer2024xyz"
	server, _ := serve(t, toldByBasic(func(w http.ResponseWriter, _ string) { _, _ = w.Write(manifest) }))
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as("alice", secret)})
	src, stop := s.Source(manifestDesc).Prefetching(Prefetch{})
	defer stop()
	f, err := src.Fetcher(t.Context(), imageRef)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := f.Fetch(t.Context(), ocispec.Descriptor{MediaType: "application/x-none", Digest: manifestDigest, Size: int64(len(manifest))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(rc); err != nil { // the secret is sent
		t.Fatal(err)
	}
	_ = rc.Close()
	if err := src.CheckConfig([]byte(`{"config":{"User":"` + secret + `"}}`)); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v", err)
	}
	if err := src.CheckConfig([]byte(`{"config":{"User":"alice","Env":["A=` + secret + `"]}}`)); err != nil {
		t.Errorf("got %v", err)
	}
}
