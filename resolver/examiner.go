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
	"path"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// examiner examines the answers of one host in a check before docker's resolver
// sees them, which trusts whatever is not an error. Docker's resolver makes its
// requests one after the other, so the examiner needs no lock.
type examiner struct {
	next      http.RoundTripper
	host      *host
	known     digest.Digest // what the node has, "" = nothing
	wanted    digest.Digest // what the reference says, "" = it names a tag
	manifests bool          // manifests are read, and not only asked for their digests
	redactor  *redact.Redactor

	unexplained bool // nobody asks for the reason of a refusal

	mediaType string        // what the last success says of its content, as it is
	status    string        // the last answer that was no success, for error texts
	elsewhere bool          // it is not the host's own
	forbade   bool          // the host itself has answered 403, be it to the GET that asks for the reason of one
	shown     bool          // whether any request that counts had credentials: one that was redirected may have lost them
	seen      bool          // whether any of these had the session's, and not the node's
	promised  digest.Digest // what the answer to HEAD promised
	data      []byte        // the manifest that was read last
	got       digest.Digest // its digest
}

// delivered adds a document to others, if its bytes are what was read last.
func (e *examiner) delivered(others []digest.Digest, d digest.Digest) []digest.Digest {
	if d == "" || d != e.got {
		return others
	}
	return append(others, d)
}

// before puts the examiner before another RoundTripper.
func (e *examiner) before(next http.RoundTripper) http.RoundTripper {
	e.next = next
	return e
}

// asGet returns a request for a manifest as one for its bytes. Docker's resolver sends HEAD
// first, and takes the answer to GET as well: it needs the header alone.
func asGet(req *http.Request) *http.Request {
	get := req.WithContext(req.Context())
	get.Method, get.Header = http.MethodGet, req.Header.Clone()
	return get
}

// errNoBlob is why a check asks for no blob.
var errNoBlob = errors.New("a check asks for manifests only")

// RoundTrip implements http.RoundTripper. A success that is not right is a
// *fault.Fault.
func (e *examiner) RoundTrip(req *http.Request) (*http.Response, error) {
	if forBlob(req) {
		return nil, &fault.Fault{Class: failure.NotFound, Err: errNoBlob}
	}
	ctx := req.Context()
	if e.manifests && req.Method == http.MethodHead {
		req = asGet(req)
	}
	resp, err := e.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	// Docker's resolver sends a request that gets 401 anew from its start.
	if req.Header.Get("Authorization") != "" && resp.StatusCode != http.StatusUnauthorized {
		e.shown, e.seen = true, e.seen || e.host.sees(req)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		own := fault.Own(req)
		e.status, e.elsewhere = e.redactor.Request(req, errors.New(fault.StatusText(resp.StatusCode))).Error(), !own
		e.forbade = e.forbade || own && resp.StatusCode == http.StatusForbidden
		if e.ends(resp.StatusCode) {
			return nil, e.refused(req, resp)
		}
		return resp, nil
	}
	if err := e.accept(req, resp); err != nil {
		_ = resp.Body.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f, ok := fault.As(err)
		if !ok {
			f = &fault.Fault{Class: failure.Invalid, Err: err}
		}
		f.Err = e.redactor.Request(req, f.Err)
		return nil, f
	}
	return resp, nil
}

// owns reports whether an error of docker's resolver is an answer of the host itself, or of its token
// server. After a 403 to HEAD docker's resolver asks by GET for the reason, and reports the 403 whatever
// comes of that: so the last answer says nothing of whose it is.
func (e *examiner) owns(err error) bool {
	if f, ok := fault.As(err); ok {
		return !f.Elsewhere
	}
	if fault.AnswerClass(err) == failure.Forbidden {
		return e.forbade
	}
	return !e.elsewhere
}

// ends reports whether an answer with that status is handed to docker's resolver as a fault.
// It has sent HEAD, and would ask by GET after 405, and after 403 for the reason.
func (e *examiner) ends(status int) bool {
	switch status {
	case http.StatusForbidden:
		return e.manifests || e.unexplained
	case http.StatusMethodNotAllowed:
		return e.manifests
	}
	return false
}

// refused is such an answer, with the reason that it gives.
func (e *examiner) refused(req *http.Request, resp *http.Response) *fault.Fault {
	defer resp.Body.Close()
	text := redact.WithReason(fault.StatusText(resp.StatusCode), e.redactor.ReadReason(resp))
	return &fault.Fault{
		Class: fault.StatusClass(resp.StatusCode), Status: resp.StatusCode,
		Err: e.redactor.Request(req, errors.New(text)), Elsewhere: e.elsewhere,
	}
}

// forBlob reports whether a request is that for a blob that docker's resolver
// sends when it got no manifest by digest. It is for registries older than
// manifests; a mirror that answered it would hand out an image nobody can run. It
// gets an error, and not an answer with status 404, which would hide why there
// was no manifest.
func forBlob(req *http.Request) bool {
	return req.Response == nil && path.Base(path.Dir(req.URL.Path)) == "blobs"
}

const digestHeader = "Docker-Content-Digest"

// accept examines a success: what it says of itself, and that it is for the digest of
// the reference, if that has one. It may change the answer's length, to make docker's
// resolver ask for the manifest or to keep it from doing so.
func (e *examiner) accept(req *http.Request, resp *http.Response) error {
	e.mediaType = resp.Header.Get("Content-Type")
	mediaType, _, _ := strings.Cut(e.mediaType, ";")
	if isPage(mediaType) {
		return fmt.Errorf("a web page (%s) instead of a manifest", mediaType)
	}
	promised := digest.Digest(resp.Header.Get(digestHeader))
	if promised != "" {
		if err := promised.Validate(); err != nil {
			return fmt.Errorf("%s %s: %w", digestHeader, redact.Quote(promised.String()), err)
		}
		if e.redactor.Repeats(promised.Encoded()) { // a password can look like one; logs and files name it
			return fmt.Errorf("%s with a secret of the request", digestHeader)
		}
		if err := e.checkMediaType(mediaType, true); err != nil {
			return err
		}
		if e.wanted != "" && promised.Algorithm() == e.wanted.Algorithm() && promised != e.wanted {
			return fmt.Errorf("%s %s instead of that of the reference, %s", digestHeader, promised, e.wanted)
		}
	}
	if resp.ContentLength > docker.MaxManifestSize {
		return fmt.Errorf("a manifest of %d bytes: more than %d are not allowed", resp.ContentLength, docker.MaxManifestSize)
	}
	if req.Method != http.MethodHead {
		if err := e.read(resp, promised); err != nil {
			return err
		}
		return documents.Validate(mediaType, e.data)
	}
	e.promised = promised
	switch unusable := resp.ContentLength <= 0 || mediaType == ""; {
	case e.wanted != "" && promised != "" && promised != e.wanted:
		resp.ContentLength = -1 // of another algorithm: only the content can be compared
	case unusable && promised != "" && promised == e.known:
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
func (e *examiner) read(resp *http.Response, promised digest.Digest) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, docker.MaxManifestSize+1)) // transport has all of it
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errors.New("an empty manifest")
	}
	if int64(len(data)) > docker.MaxManifestSize {
		return fmt.Errorf("a manifest of more than %d bytes", docker.MaxManifestSize)
	}
	got := digest.FromBytes(data)
	for _, want := range []digest.Digest{promised, cmp.Or(e.wanted, promised, e.promised)} {
		if want == "" {
			continue
		}
		if got = want.Algorithm().FromBytes(data); got != want {
			return fmt.Errorf("a manifest with digest %s instead of the promised %s", got, want)
		}
	}
	// With digest and length, docker's resolver does not ask for it again.
	e.data, e.got = data, got
	resp.Header.Set(digestHeader, got.String())
	resp.ContentLength = int64(len(data))
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

// descriptor examines the descriptor that docker's resolver made of the answers.
func (e *examiner) descriptor(desc ocispec.Descriptor) error {
	if err := desc.Digest.Validate(); err != nil {
		return fmt.Errorf("digest %q: %w", desc.Digest, err)
	}
	return e.checkMediaType(desc.MediaType, desc.MediaType == "" && desc.Digest == e.known)
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
// a type is allowed if it is not needed. The error has the whole header: in a part of it nobody
// would know a secret.
func (e *examiner) checkMediaType(mediaType string, orNone bool) error {
	if images.IsManifestType(mediaType) || images.IsIndexType(mediaType) || mediaType == "" && orNone {
		return nil
	}
	return fmt.Errorf("content type %s: %w", redact.Quote(cmp.Or(e.mediaType, mediaType)), errMediaType)
}
