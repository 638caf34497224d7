// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// check is one host's part of a check. Docker's resolver makes its requests
// one after the other, so it needs no lock.
type check struct {
	local  func() Local
	wanted digest.Digest // what the reference says, "" = it names a tag
	last   bool          // no host is asked after this one
	pass   *pass         // to ask the host

	status   string        // the last answer that was no success, for error texts
	shown    bool          // whether any request had credentials: one that was redirected may have lost them
	promised digest.Digest // what the answer to HEAD promised
}

const digestHeader = "Docker-Content-Digest"

// accept examines a success before docker's resolver sees it, which trusts
// whatever is not an error. It may change the answer's length, to make docker's
// resolver ask for the manifest or to keep it from doing so.
func (c *check) accept(req *http.Request, resp *http.Response) error {
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if isPage(mediaType) {
		return fmt.Errorf("a web page (%s) instead of a manifest", mediaType)
	}
	promised := digest.Digest(resp.Header.Get(digestHeader))
	if promised != "" {
		if err := promised.Validate(); err != nil {
			return fmt.Errorf("%s %s: %w", digestHeader, quote(promised.String()), err)
		}
		if err := checkMediaType(mediaType, true); err != nil {
			return err
		}
	}
	if resp.ContentLength > docker.MaxManifestSize {
		return fmt.Errorf("a manifest of %d bytes: more than %d are not allowed", resp.ContentLength, docker.MaxManifestSize)
	}
	if req.Method != http.MethodHead {
		return c.read(resp, promised)
	}
	c.promised = promised
	switch unusable := resp.ContentLength <= 0 || mediaType == ""; {
	case unusable && promised != "" && promised == c.local().Digest:
		// Nothing changed, so nobody needs what is missing.
		resp.ContentLength = max(resp.ContentLength, 0)
	case unusable:
		resp.ContentLength = -1
	}
	return nil
}

// read replaces the body by the manifest, once it is there and has the digest
// of the reference, or else that of its own answer: a tag may have moved since
// HEAD.
func (c *check) read(resp *http.Response, promised digest.Digest) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, docker.MaxManifestSize+1))
	_ = resp.Body.Close()
	if err != nil {
		return &fault{class: transportClass(err, false), err: err, passing: brokenOff(err)}
	}
	if len(data) == 0 {
		return errors.New("an empty manifest")
	}
	if int64(len(data)) > docker.MaxManifestSize {
		return fmt.Errorf("a manifest of more than %d bytes", docker.MaxManifestSize)
	}
	promised = cmp.Or(c.wanted, promised, c.promised)
	got := digest.FromBytes(data)
	if promised != "" {
		got = promised.Algorithm().FromBytes(data)
	}
	if promised != "" && got != promised {
		return fmt.Errorf("a manifest with digest %s instead of the promised %s", got, promised)
	}
	// With digest and length, docker's resolver does not ask for it again.
	resp.Header.Set(digestHeader, got.String())
	resp.ContentLength = int64(len(data))
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

// descriptor examines what docker's resolver made of the answers.
func (c *check) descriptor(desc ocispec.Descriptor) (ocispec.Descriptor, error) {
	if err := desc.Digest.Validate(); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("digest %q: %w", desc.Digest, err)
	}
	return desc, checkMediaType(desc.MediaType, desc.MediaType == "" && desc.Digest == c.local().Digest)
}

func isPage(mediaType string) bool {
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "text/html", "application/xhtml+xml":
		return true
	}
	return false
}

var errMediaType = errors.New("neither a manifest nor an index")

// checkMediaType allows the types that containerd can pull. An answer without
// a type is allowed if it is not needed.
func checkMediaType(mediaType string, orNone bool) error {
	if images.IsManifestType(mediaType) || images.IsIndexType(mediaType) || mediaType == "" && orNone {
		return nil
	}
	return fmt.Errorf("content type %s: %w", quote(mediaType), errMediaType)
}
