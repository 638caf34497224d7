// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// blobs are content in memory.
type blobs map[digest.Digest]string

// ReaderAt implements content.Provider.
func (b blobs) ReaderAt(_ context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	text, ok := b[desc.Digest]
	if !ok {
		return nil, fmt.Errorf("%s: %w", desc.Digest, errdefs.ErrNotFound)
	}
	return readerOf(text), nil
}

func describe(mediaType, text string) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString(text), Size: int64(len(text))}
}

// TestDataIsNotRead has a manifest in the data of an index, and a config in that of a manifest,
// under all names that Go's decoder takes for this field's.
func TestDataIsNotRead(t *testing.T) {
	const config, layer = `{"rootfs":{"type":"layers","diff_ids":[]}}`, `{"mediaType":"data"}`
	for _, name := range []string{`"data":`, `"DATA" :`, `"d\u0061ta":`, `"\u0064\u0061\u0054\u0061"` + "\n:"} {
		with := func(desc ocispec.Descriptor, data string) string {
			encoded, err := json.Marshal([]byte(data))
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"annotations":{"\\\"data":"data"},%s%s}`, desc.MediaType, desc.Digest, desc.Size, name, encoded)
		}
		configDesc := describe(ocispec.MediaTypeImageConfig, config)
		manifest := fmt.Sprintf(`{"config":%s,"layers":[%s]}`, with(configDesc, config), layer)
		manifestDesc := describe(ocispec.MediaTypeImageManifest, manifest)
		index := fmt.Sprintf(`{"manifests":[%s]}`, with(manifestDesc, manifest))
		indexDesc := describe(ocispec.MediaTypeImageIndex, index)

		here := blobs{indexDesc.Digest: index}
		if _, err := images.Manifest(t.Context(), here, indexDesc, nil); err != nil {
			t.Fatalf("%s: containerd does not read the data: %v", name, err)
		}
		if m, err := images.Manifest(t.Context(), Bounded{here}, indexDesc, nil); !errdefs.IsNotFound(err) {
			t.Errorf("%s: the manifest in the index is read: %+v, %v", name, m, err)
		}
		here[manifestDesc.Digest] = manifest
		got, err := images.Manifest(t.Context(), Bounded{here}, indexDesc, nil)
		if err != nil || got.Layers[0].MediaType != "data" || got.Config.Annotations[`\"data`] != "data" {
			t.Errorf("%s: the manifest is %+v, %v", name, got, err)
		}
		if _, err := DiffIDs(t.Context(), here, got.Config); !errdefs.IsNotFound(err) {
			t.Errorf("%s: the config in the manifest is read: %v", name, err)
		}
	}
}

// TestConfigsAreReadAsTheyAre has a config with a label by the name of the field.
func TestConfigsAreReadAsTheyAre(t *testing.T) {
	const config = `{"config":{"Labels":{"data":"kept"}}}`
	desc := describe(ocispec.MediaTypeImageConfig, config)
	if got, err := content.ReadBlob(t.Context(), Bounded{blobs{desc.Digest: config}}, desc); err != nil || string(got) != config {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestForNode takes of an index what containerd runs.
func TestForNode(t *testing.T) {
	ours, theirs := platforms.DefaultSpec(), ocispec.Platform{OS: "plan9", Architecture: "mips"}
	of := func(text string, p *ocispec.Platform) ocispec.Descriptor {
		desc := describe(ocispec.MediaTypeImageManifest, text)
		desc.Platform = p
		return desc
	}
	for want, all := range map[string][]ocispec.Descriptor{
		"ours":    {of("theirs", &theirs), of("any", nil), of("ours", &ours), of("again", &ours)},
		"any":     {of("theirs", &theirs), of("any", nil)},
		"nothing": {of("theirs", &theirs)},
	} {
		data, err := json.Marshal(ocispec.Index{Manifests: all})
		if err != nil {
			t.Fatal(err)
		}
		index := describe(ocispec.MediaTypeImageIndex, string(data))
		got, err := ForNode(blobs{index.Digest: string(data)})(t.Context(), index)
		if want == "nothing" {
			if !errdefs.IsNotFound(err) {
				t.Errorf("got %v, %v", got, err)
			}
		} else if err != nil || len(got) != 1 || got[0].Digest != digest.FromString(want) {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	}
}

// FuzzHideData leaves no data in any index that Go's decoder takes, and all else as it is.
func FuzzHideData(f *testing.F) {
	f.Add(`{"manifests":[{"d\u0061ta":"e30=","digest":"data","data":[1,2]}]}`)
	f.Add(`{"manifests":[{"da\"ta":"\\","DATA" : "e30="}],"x":"\`)
	f.Fuzz(func(t *testing.T, text string) {
		var before, after ocispec.Index
		hidden := []byte(text)
		hideData(hidden)
		if len(hidden) != len(text) {
			t.Fatalf("%q has become %q", text, hidden)
		}
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		if err := json.Unmarshal(hidden, &after); err != nil {
			t.Fatalf("%q has become %q: %v", text, hidden, err)
		}
		for i := range before.Manifests {
			before.Manifests[i].Data = nil
		}
		if !strings.Contains(strings.ToLower(text), "annotations") && !strings.Contains(text, `\u`) && !reflect.DeepEqual(before.Manifests, after.Manifests) {
			t.Errorf("%q has become %q", text, hidden)
		}
		for _, m := range after.Manifests {
			if m.Data != nil {
				t.Errorf("%q has become %q", text, hidden)
			}
		}
	})
}

// A document that ends before its size is an error, and its reader is closed.
func TestDocumentThatIsCut(t *testing.T) {
	r := &cut{readerOf("{}")}
	if got, err := withoutData(r); err == nil {
		t.Errorf("got %v", got)
	}
}

type cut struct{ content.ReaderAt }

// ReadAt implements io.ReaderAt.
func (*cut) ReadAt([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }
