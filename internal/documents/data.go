// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxData bounds the data that a descriptor has with it, in bytes. containerd reads a document
// from there without its bounds, which so little cannot reach.
const maxData = 64 << 10

// namesOthers reports whether a document of that type has descriptors.
func namesOthers(desc ocispec.Descriptor) bool {
	return images.IsManifestType(desc.MediaType) || images.IsIndexType(desc.MediaType)
}

// withoutData returns the document of a reader without the data of its descriptors, and closes
// the reader.
func withoutData(r content.ReaderAt) (_ content.ReaderAt, err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	document := make([]byte, r.Size())
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, r.Size()), document); err != nil {
		return nil, fmt.Errorf("read a document: %w", err)
	}
	hideData(document)
	return &inMemory{bytes.NewReader(document)}, nil
}

// inMemory is content that was read.
type inMemory struct{ *bytes.Reader }

// Close implements content.ReaderAt.
func (*inMemory) Close() error { return nil }

// maxDataName is how long the name of the field can be, with each letter escaped.
const maxDataName = len(`"\u0064\u0061\u0074\u0061"`)

// hideData overwrites the names of all fields "data", however they are spelled, so that decoders
// of descriptors find none. What is no JSON stays no JSON.
func hideData(document []byte) {
	for i := 0; i < len(document); i++ {
		if document[i] != '"' {
			continue
		}
		start := i
		for i++; i < len(document) && document[i] != '"'; i++ {
			if document[i] == '\\' {
				i++
			}
		}
		if i >= len(document) {
			return
		}
		if text := document[start : i+1]; len(text) <= maxDataName && isData(text) && isName(document[i+1:]) {
			copy(text[1:len(text)-1], bytes.Repeat([]byte{'-'}, len(text)))
		}
	}
}

// isData reports whether a JSON string is the name of the field, to Go's decoder.
func isData(text []byte) bool {
	var name string
	return json.Unmarshal(text, &name) == nil && strings.EqualFold(name, "data")
}

// isName reports whether the string is a name before which that stands.
func isName(rest []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":"))
}
