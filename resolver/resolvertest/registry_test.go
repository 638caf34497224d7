// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/sirupsen/logrus"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func TestPushAndPull(t *testing.T) {
	r := resolvertest.New(t)
	want(t, "digest", push(t, r, "team/app:1", resolvertest.Image(1, 2, 1000)), must(resolvertest.Image(1, 2, 1000).Digest()).String())
	index := push(t, r, "team/app:all", resolvertest.Index(2, 1, 100))
	if n := len(r.Requests()); n != 0 {
		t.Errorf("pushing left %d requests in the record", n)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	img := must(remote.Image(must(name.ParseReference(r.Host()+"/team/app:1")), remote.WithTransport(transport)))
	if err := validate.Image(img); err != nil {
		t.Error(err)
	}
	idx := must(remote.Index(must(name.ParseReference(r.Host()+"/team/app:all")), remote.WithTransport(transport)))
	want(t, "digest of the index", must(idx.Digest()).String(), index)
	if err := validate.Index(idx); err != nil {
		t.Error(err)
	}
}

func TestTags(t *testing.T) {
	r := resolvertest.New(t)
	c, url := client(t, r), r.URL()+"/v2/app/manifests/1"
	first := push(t, r, "app:1", resolvertest.Image(1, 1, 10))
	second := push(t, r, "app:1", resolvertest.Image(2, 1, 10))
	want(t, "digest after the second push", get(t, c, url).Header.Get("Docker-Content-Digest"), second)
	if err := r.Tag(t.Context(), "app", "1", digestOf(first)); err != nil {
		t.Fatal(err)
	}
	want(t, "digest after tagging", get(t, c, url).Header.Get("Docker-Content-Digest"), first)
	if err := r.DeleteTag(t.Context(), "app", "1"); err != nil {
		t.Fatal(err)
	}
	want(t, "status after deletion", get(t, c, url).StatusCode, http.StatusNotFound)
	want(t, "status by digest", get(t, c, r.URL()+"/v2/app/manifests/"+second).StatusCode, http.StatusOK)
	if err := r.DeleteTag(t.Context(), "app", "1"); err == nil {
		t.Error("deleting a tag twice gives no error")
	}
}

func TestRegistriesShareNothing(t *testing.T) {
	a, b := resolvertest.New(t), resolvertest.New(t)
	push(t, a, "app:1", resolvertest.Image(1, 1, 10))
	want(t, "status in the other", get(t, client(t, b), b.URL()+"/v2/app/manifests/1").StatusCode, http.StatusNotFound)
}

func TestRequests(t *testing.T) {
	r := resolvertest.New(t)
	push(t, r, "app:1", resolvertest.Image(1, 1, 10))
	c := client(t, r)
	before := time.Now()
	for range 3 {
		_ = get(t, c, r.URL()+"/v2/app/manifests/1?ns=registry.test", "Authorization", "Bearer secret")
	}
	_ = get(t, c, r.URL()+"/v2/app/manifests/2")
	all := r.Requests()
	want(t, "number of requests", len(all), 4)
	first, last := all[0], all[3]
	want(t, "method", first.Method, "GET")
	want(t, "path", first.Path, "/v2/app/manifests/1")
	want(t, "part", first.Part, resolvertest.Manifests)
	want(t, "query", first.Query.Get("ns"), "registry.test")
	want(t, "authorization", first.Header.Get("Authorization"), "Bearer")
	want(t, "authorized", first.Authorized, true)
	want(t, "status", first.Status, http.StatusOK)
	want(t, "status of the last", last.Status, http.StatusNotFound)
	want(t, "last authorized", last.Authorized, false)
	want(t, "time is in order", !first.At.Before(before) && !last.At.Before(first.At), true)
	want(t, "GETs of manifests", r.Count(resolvertest.Of("GET", resolvertest.Manifests)), 4)
	want(t, "HEADs", r.Count(resolvertest.Of("HEAD", resolvertest.All)), 0)
	want(t, "blobs", r.Count(resolvertest.Of("", resolvertest.Blobs)), 0)
	want(t, "connections", r.Connections(), 1)
	r.Forget()
	want(t, "count after Forget", r.Count(nil), 0)
}

func TestTLS(t *testing.T) {
	r := resolvertest.New(t, resolvertest.WithTLS())
	want(t, "status", get(t, client(t, r), r.URL()+"/v2/").StatusCode, http.StatusOK)
	stranger := &http.Client{Transport: &http.Transport{}}
	_, err := do(t, stranger, http.MethodGet, r.URL()+"/v2/")
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Errorf("a client without the CA gets %v (%v), want a certificate error", err, untrusted)
	}
	dir := t.TempDir()
	path, err := r.CAFile(dir)
	if err != nil || filepath.Dir(path) != dir {
		t.Errorf("CAFile gives %q, %v", path, err)
	}
	if _, err := resolvertest.New(t).CAFile(dir); err == nil {
		t.Error("CAFile without TLS gives no error")
	}
}

func TestClientCertificates(t *testing.T) {
	r := resolvertest.New(t, resolvertest.WithClientCertificates())
	c := client(t, r)
	want(t, "status", get(t, c, r.URL()+"/v2/").StatusCode, http.StatusOK)
	c.CloseIdleConnections()
	c.Transport.(*http.Transport).TLSClientConfig.Certificates = nil
	if _, err := do(t, c, http.MethodGet, r.URL()+"/v2/"); err == nil {
		t.Error("a client without a certificate gets in")
	}
}

// TestDelay holds the model: a round trip a turn, one more to connect, one
// more for TLS 1.3. Upper bounds leave room for slow machines, but not for
// another round trip, which is long for that.
func TestDelay(t *testing.T) {
	const rtt = 2 * time.Second
	tests := []struct {
		name       string
		opts       []resolvertest.Option
		cold, warm int // round trips
	}{
		{"http", nil, 2, 1},
		{"https", []resolvertest.Option{resolvertest.WithTLS()}, 3, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := resolvertest.New(t, append(tt.opts, resolvertest.WithDelay(rtt))...)
			c := client(t, r)
			c.Timeout = time.Minute
			c.Transport.(*http.Transport).ForceAttemptHTTP2 = false // whose set-up takes turns of its own
			for i, turns := range []int{tt.cold, tt.warm, tt.warm} {
				start := time.Now()
				_ = get(t, c, r.URL()+"/v2/")
				if took := time.Since(start); took < time.Duration(turns)*rtt || took >= time.Duration(turns+1)*rtt {
					t.Errorf("request %d took %v, want %d round trips of %v", i+1, took, turns, rtt)
				}
			}
		})
	}
}

func TestClose(t *testing.T) {
	r, err := resolvertest.Start(resolvertest.WithDelay(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, r)
	_ = get(t, c, r.URL()+"/v2/")
	r.Hang(resolvertest.All)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, r.URL()+"/v2/", http.NoBody)
		resp, err := c.Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		done <- err
	}()
	for r.Count(nil) < 2 {
		time.Sleep(time.Millisecond)
	}
	r.Close()
	if err := <-done; err == nil {
		t.Error("a request in hand was answered, want an error")
	}
}

// TestSilence holds that nothing of the registry's reaches the log that
// containerd shares with it.
func TestSilence(t *testing.T) {
	var out bytes.Buffer
	std := logrus.StandardLogger()
	old, level := std.Out, std.GetLevel()
	std.SetOutput(&out)
	std.SetLevel(logrus.TraceLevel)
	defer func() { std.SetOutput(old); std.SetLevel(level) }()

	r, err := resolvertest.Start()
	if err != nil {
		t.Fatal(err)
	}
	push(t, r, "app:1", resolvertest.Image(1, 1, 10))
	_ = get(t, client(t, r), r.URL()+"/v2/app/manifests/1")
	_ = get(t, client(t, r), r.URL()+"/v2/app/manifests/none")
	r.Close()
	if out.Len() > 0 {
		t.Errorf("logged: %s", out.String())
	}
}
