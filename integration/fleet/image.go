// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Sizes of layers as they count for the time of a download, in bytes.
const (
	baseSize = 60 << 20 // of all versions of an image
	topSize  = 20 << 20 // of one version
)

// blob is content as a registry has it.
type blob struct {
	desc ocispec.Descriptor
	data []byte
	size int64 // for the time of a download
}

// image is one version of a repository's image.
type image struct {
	manifest, config, base, top blob
}

func newBlob(mediaType string, data []byte, size int64) blob {
	return blob{
		desc: ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))},
		data: data, size: size,
	}
}

// newImage makes a version of the image of a repository.
func newImage(repository string, version int) *image {
	layer := ocispec.MediaTypeImageLayerGzip
	i := &image{
		config: newBlob(ocispec.MediaTypeImageConfig, fmt.Appendf(nil, `{"os":"linux","architecture":"amd64","config":{"Labels":{"version":"%s %d"}}}`, repository, version), 1<<10),
		base:   newBlob(layer, []byte("base of "+repository), baseSize),
		top:    newBlob(layer, fmt.Appendf(nil, "version %d of %s", version, repository), topSize),
	}
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: i.config.desc, Layers: []ocispec.Descriptor{i.base.desc, i.top.desc},
	})
	if err != nil {
		panic(err) // the type can always be written
	}
	i.manifest = newBlob(ocispec.MediaTypeImageManifest, data, 1<<10)
	return i
}

// blobs are all of the content of an image.
func (i *image) blobs() []*blob { return []*blob{&i.manifest, &i.config, &i.base, &i.top} }
