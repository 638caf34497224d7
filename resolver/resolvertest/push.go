// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"
)

// Pushable is what Push takes: a v1.Image or a v1.ImageIndex of
// go-containerregistry.
type Pushable interface{ Digest() (v1.Hash, error) }

// Push stores an image, or an index with its images, as "repository:tag". It
// returns the digest that the tag then has.
func (r *Registry) Push(ctx context.Context, ref string, what Pushable) (digest.Digest, error) {
	tag, err := name.NewTag(r.Host()+"/"+ref, name.Insecure, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("push %q: %w", ref, err)
	}
	switch img := what.(type) {
	case v1.Image:
		err = remote.Write(tag, img, r.direct(ctx)...)
	case v1.ImageIndex:
		err = remote.WriteIndex(tag, img, r.direct(ctx)...)
	default:
		err = fmt.Errorf("%T is neither a v1.Image nor a v1.ImageIndex", what)
	}
	if err != nil {
		return "", fmt.Errorf("push %q: %w", ref, err)
	}
	h, err := what.Digest()
	if err != nil {
		return "", fmt.Errorf("push %q: %w", ref, err)
	}
	return digest.Digest(h.String()), nil
}

// Tag lets the tag name a manifest that the repository already has.
func (r *Registry) Tag(ctx context.Context, repo, tag string, d digest.Digest) error {
	from, err := name.NewDigest(r.Host()+"/"+repo+"@"+d.String(), name.Insecure)
	if err != nil {
		return fmt.Errorf("tag %s:%s: %w", repo, tag, err)
	}
	desc, err := remote.Get(from, r.direct(ctx)...)
	if err == nil {
		err = remote.Tag(from.Tag(tag), desc, r.direct(ctx)...)
	}
	if err != nil {
		return fmt.Errorf("tag %s:%s: %w", repo, tag, err)
	}
	return nil
}

// DeleteTag takes the tag away; the manifest stays.
func (r *Registry) DeleteTag(ctx context.Context, repo, tag string) error {
	t, err := name.NewTag(r.Host()+"/"+repo+":"+tag, name.Insecure, name.StrictValidation)
	if err == nil {
		err = remote.Delete(t, r.direct(ctx)...)
	}
	if err != nil {
		return fmt.Errorf("delete tag %s:%s: %w", repo, tag, err)
	}
	return nil
}

func (r *Registry) direct(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithTransport(direct{r.app})}
}

// direct is a transport that asks a handler in this process, past listener,
// record, scripts and authentication.
type direct struct{ handler http.Handler }

// RoundTrip answers from the handler.
func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	in := req.Clone(discardLogger{req.Context()}) //nolint:contextcheck // it inherits all but the logger
	in.RequestURI = req.URL.RequestURI()
	if in.Body == nil {
		in.Body = http.NoBody
	}
	defer func() { _ = in.Body.Close() }()
	out := &memory{header: http.Header{}, code: http.StatusOK}
	d.handler.ServeHTTP(out, in)
	return &http.Response{
		Status: http.StatusText(out.code), StatusCode: out.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: out.header, Body: io.NopCloser(&out.body), ContentLength: int64(out.body.Len()), Request: req,
	}, nil
}

type memory struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header returns the headers to be sent.
func (m *memory) Header() http.Header { return m.header }

// WriteHeader keeps the code.
func (m *memory) WriteHeader(code int) { m.code = code }

// Write keeps the body.
func (m *memory) Write(p []byte) (int, error) { return m.body.Write(p) }
