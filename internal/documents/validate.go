// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// maxMediaType bounds media types, in bytes: a type and a subtype have 127 each (RFC 6838).
const maxMediaType = 255

// Validate returns an error for a manifest, an index or a config, as the media type says,
// that has too many objects, or names something by a digest which is none, by a media type
// that is too long, or with data that is too large, or is a config that has CRI write too much into
// errors and logs. The first two would get into labels, errors and names of files. The error names the field. What is no such JSON is left to those who read it.
func Validate(mediaType string, data []byte) error {
	var c counter
	c.add(data)
	if err := c.err(); err != nil {
		return err
	}
	return validateFields(mediaType, data)
}

// validateFields is Validate of a document whose objects are counted.
func validateFields(mediaType string, data []byte) error {
	switch {
	case images.IsManifestType(mediaType):
		var m struct {
			MediaType string               `json:"mediaType"`
			Config    configField          `json:"config"`
			Layers    []ocispec.Descriptor `json:"layers"`
		}
		if !decoded(data, &m) {
			return nil
		}
		if m.Config.named {
			if err := checkDescriptor("config", m.Config.Descriptor); err != nil {
				return err
			}
		}
		return cmp.Or(checkLength("mediaType", len(m.MediaType), maxMediaType), checkDescriptors("layers", m.Layers))
	case images.IsIndexType(mediaType):
		var i ocispec.Index
		if !decoded(data, &i) {
			return nil
		}
		return cmp.Or(checkLength("mediaType", len(i.MediaType), maxMediaType), checkDescriptors("manifests", i.Manifests))
	case images.IsConfigType(mediaType):
		return validateConfig(data)
	}
	return nil
}

// configField is the config of a manifest. As to containerd, a null takes away nothing that the
// manifest has said of it before.
type configField struct {
	ocispec.Descriptor
	named bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *configField) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	c.named = true
	return json.Unmarshal(data, &c.Descriptor)
}

// decoded reports whether v has the document.
func decoded(data []byte, v any) bool { return json.Unmarshal(data, v) == nil }

func checkDescriptors(field string, all []ocispec.Descriptor) error {
	for i, desc := range all {
		if err := checkDescriptor(fmt.Sprintf("%s[%d]", field, i), desc); err != nil {
			return err
		}
	}
	return nil
}

func checkDescriptor(field string, desc ocispec.Descriptor) error {
	return cmp.Or(CheckDigest(field+".digest", desc.Digest),
		checkLength(field+".mediaType", len(desc.MediaType), maxMediaType), checkLength(field+".data", len(desc.Data), maxData))
}

func checkDiffIDs(all []digest.Digest) error {
	for i, d := range all {
		if err := CheckDigest(fmt.Sprintf("rootfs.diff_ids[%d]", i), d); err != nil {
			return err
		}
	}
	return nil
}

// maxQuoted bounds what an error repeats of something that should be a digest, in bytes.
const maxQuoted = 200

// CheckDigest returns an error, which names the field, for a digest that is none. The error has
// all of it, or nothing: in a part of it nobody would find the secret that a registry repeats.
func CheckDigest(field string, d digest.Digest) error {
	switch err := d.Validate(); {
	case err == nil:
		return nil
	case len(d) > maxQuoted:
		return fmt.Errorf("%s has %d bytes: %w", field, len(d), err)
	default:
		return fmt.Errorf("%s is %q: %w", field, d, err)
	}
}

func checkLength(field string, length, most int) error {
	if length > most {
		return fmt.Errorf("%s has %d bytes: more than %d are not allowed", field, length, most)
	}
	return nil
}
