// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxKept bounds, in bytes, a document that is in memory until a pull asks for it. Larger
// ones are asked for when containerd does.
const maxKept = 256 << 10

// document is a manifest or an index that a check has read.
type document struct {
	host   *host // that served it
	digest digest.Digest
	data   []byte
}

// keep has the manifest of a check in memory until the session is closed, for its Source.
func (s *session) keep(h *host, desc ocispec.Descriptor, data []byte) {
	if len(data) == 0 || len(data) > maxKept || int64(len(data)) != desc.Size {
		return
	}
	s.kept.Store(&document{host: h, digest: desc.Digest, data: data})
}

// keptFor returns the manifest that a check has read of a descriptor; nil where it has
// read none, or where a host has served it that is not one of the session.
func (s *session) keptFor(desc ocispec.Descriptor) *document {
	d := s.kept.Load()
	if d == nil || d.digest != desc.Digest || int64(len(d.data)) != desc.Size || !slices.Contains(s.hosts, d.host) {
		return nil
	}
	return d
}

// read returns the document as if its host had just been asked for it.
func (d *document) read(log *fetchLog) io.ReadCloser {
	log.answered(d.digest, d.host)
	log.served(d.digest, d.host)
	log.verified(d.digest)
	return keptReader{bytes.NewReader(d.data)}
}

// keptReader reads what is in memory.
type keptReader struct{ *bytes.Reader }

// Close implements io.Closer.
func (keptReader) Close() error { return nil }
