// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// What containerd reads of documents and descriptors (OCI image spec v1.1), of which registries make sure when they are pushed
// that they have it.
var (
	documentNames   = []string{"mediaType", "config", "layers", "manifests"}
	descriptorNames = []string{"mediaType", "digest", "size", "urls"}
)

// ReadsOtherwise reports whether others may read something else than containerd in a document on the way from the target to the
// manifest that runs. The error is errdefs.ErrNotFound where one is not there.
func ReadsOtherwise(ctx context.Context, contents content.Provider, target ocispec.Descriptor) (bool, error) {
	for desc := target; ; {
		data, err := content.ReadBlob(ctx, Bounded{contents}, desc)
		if err != nil {
			return false, err
		}
		if ambiguous(data) != "" {
			return true, nil
		}
		if !images.IsIndexType(desc.MediaType) {
			return false, nil
		}
		children, err := ForNode(Bounded{contents})(ctx, desc)
		if err != nil || len(children) == 0 {
			return false, err
		}
		desc = children[0]
	}
}

// ambiguous returns the first field of a manifest or an index that stands there twice, or in upper and lower case of its own; "" = none.
// To Go such names are one, and the last one counts; to others they are different, or the first one counts: what a registry has made
// sure of, and what a node reads, would be two things.
func ambiguous(data []byte) string {
	if name := ambiguousOf(data, documentNames); name != "" {
		return name
	}
	for name, value := range members(data) {
		var all []json.RawMessage
		switch name {
		case "config":
			if field := ambiguousOf(value, descriptorNames); field != "" {
				return name + "." + field
			}
		case "layers", "manifests":
			_ = json.Unmarshal(value, &all) // what is no list of documents has none
		}
		for i, desc := range all {
			if field := ambiguousOf(desc, descriptorNames); field != "" {
				return fmt.Sprintf("%s[%d].%s", name, i, field)
			}
		}
	}
	return ""
}

// ambiguousOf is ambiguous for these names of one object.
func ambiguousOf(data []byte, names []string) string {
	seen := make(map[string]bool, len(names))
	for name := range members(data) {
		i := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
		switch {
		case i < 0:
		case names[i] != name || seen[name]:
			return names[i]
		default:
			seen[name] = true
		}
	}
	return ""
}

// members yields the members of an object in their order, as far as it is one: what is none, containerd does not read either.
func members(data []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		d := json.NewDecoder(bytes.NewReader(data))
		if t, err := d.Token(); err != nil || t != json.Delim('{') {
			return
		}
		for d.More() {
			t, err := d.Token()
			name, ok := t.(string)
			var value json.RawMessage
			if err != nil || !ok || d.Decode(&value) != nil || !yield(name, value) {
				return
			}
		}
	}
}
