// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// errNoObject is for what containerd does not read as the document that it should be, either.
var errNoObject = errors.New("no object")

// ReadsOtherwise reports whether others may read something else than containerd in a document on the way from the target to the
// manifest that runs. The error is errdefs.ErrNotFound where one is not there.
func ReadsOtherwise(ctx context.Context, contents content.Provider, target ocispec.Descriptor) (bool, error) {
	for desc := target; ; {
		data, err := content.ReadBlob(ctx, Bounded{contents}, desc)
		if err != nil {
			return false, err
		}
		if isReadOtherwise(data) {
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

func isReadOtherwise(data []byte) bool { return checkNames(data) != nil }

// checkNames returns an error for a manifest or an index in which a name stands twice, or in upper and lower case of its own. To Go
// these are one name, and the last one counts; to others they are different, or the first one counts: what a registry has made sure
// of, and what a node reads, would be two things.
func checkNames(data []byte) error {
	return checkMembers("", data, documentNames, func(name string, value json.RawMessage) error {
		switch name {
		case "config":
			return checkMembers("config.", value, descriptorNames, nil)
		case "layers", "manifests":
			var all []json.RawMessage
			_ = json.Unmarshal(value, &all) // what is no list of documents has none
			for i, desc := range all {
				if err := checkMembers(fmt.Sprintf("%s[%d].", name, i), desc, descriptorNames, nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// checkMembers is checkNames for one object, whose members of these names are visited.
func checkMembers(field string, data []byte, names []string, visit func(name string, value json.RawMessage) error) error {
	seen := make(map[string]bool, len(names))
	err := eachMember(data, func(name string, value json.RawMessage) error {
		i := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
		switch {
		case i < 0:
			return nil
		case names[i] != name:
			return fmt.Errorf("%s%s is not written so by its spec, which may have others read something else", field, names[i])
		case seen[name]:
			return fmt.Errorf("%s%s is there twice, of which others may read the other one", field, name)
		}
		seen[name] = true
		if visit == nil {
			return nil
		}
		return visit(name, value)
	})
	if errors.Is(err, errNoObject) {
		return nil
	}
	return err
}

// eachMember visits the members of an object in their order.
func eachMember(data []byte, visit func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errNoObject
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return errNoObject
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return errNoObject
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	return nil
}
