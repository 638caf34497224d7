// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func readerOf(text string) content.ReaderAt { return &inMemory{bytes.NewReader([]byte(text))} }

func checkText(text string) error { return check(digest.FromString(text), readerOf(text)) }

// TestElementsAreCounted refuses documents of many elements, whatever these are: Go's
// decoder makes a descriptor of each before it reports that it is none.
func TestElementsAreCounted(t *testing.T) {
	for _, element := range []string{`{}`, `null`, `0`, ` true`, `""`, `"\"["`, `[]`, `[ ]`, `[0]`, `{"a":"}"}`} {
		for key, more := range map[string]int{"few": maxObjects/2 - 10, "many": maxObjects + 1} {
			document := `{"schemaVersion":2,"layers":[` + strings.Repeat(element+",", more) + element + `]}`
			if !json.Valid([]byte(document)) {
				t.Fatalf("%s is no JSON", element)
			}
			if err := checkText(document); (err != nil) != (key == "many") {
				t.Errorf("%s elements %s: %v", key, element, err)
			}
		}
	}
}

// TestMembersAreCounted refuses documents of many members: each takes time to be read.
func TestMembersAreCounted(t *testing.T) {
	for members, refused := range map[int]bool{maxMembers - 1: false, maxMembers: true} {
		document := `{"annotations":{` + strings.Repeat(`"a:b": "c:d",`, members-1) + `"":""}}`
		if err := checkText(document); (err != nil) != refused || refused && !errors.Is(err, ErrInvalid) {
			t.Errorf("%d members: %v", members, err)
		}
		if err := Validate(ocispec.MediaTypeImageIndex, []byte(document)); (err != nil) != refused {
			t.Errorf("%d members: %v", members, err)
		}
	}
}

// TestDocumentsOfDescriptors takes the largest index that containerd takes, and a config
// whose texts look like a document.
func TestDocumentsOfDescriptors(t *testing.T) {
	index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex}
	for range 10_000 {
		index.Manifests = append(index.Manifests, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("a"), Size: 1234,
			Platform: &ocispec.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}, Annotations: map[string]string{"a": "b", "c": "d"},
		})
	}
	config := ocispec.Image{Config: ocispec.ImageConfig{Labels: map[string]string{"data": strings.Repeat(`[{"a": [1, 2]}, "\\"], `, 50_000)}}}
	for name, document := range map[string]any{"index": index, "config": config} {
		for _, indent := range []string{"", "\t"} {
			data, err := json.MarshalIndent(document, "", indent)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkText(string(data)); err != nil {
				t.Errorf("%s with indent %q: %v", name, indent, err)
			}
		}
	}
}
