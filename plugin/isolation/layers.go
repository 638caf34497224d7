// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// layers knows of which content a pull unpacks what. containerd locks an unpacking by what the config of an image claims that it
// comes to. Any image may claim that of any layers: those that unpack for hours, or to something else. So
// only those wait for each other that unpack the same. The zero value is ready, and safe for concurrent use.
type layers struct {
	mu        sync.Mutex
	manifests map[digest.Digest]layout   // of each config: what a manifest says that has it
	unpacked  map[digest.Digest]unpacked // by chain ID
}

// layout is the content of the layers that a manifest has, the lowest first. A config that several have, with other layers, has none.
type layout []ocispec.Descriptor

// chain returns the content of as many layers as a config says that there are, nil if nobody knows which. As in containerd, what is
// called something else does not count, unless a platform is configured to unpack it.
func (l layout) chain(length int) (all []digest.Digest) {
	known := slices.DeleteFunc(slices.Clone(l), func(d ocispec.Descriptor) bool { return !images.IsLayerType(d.MediaType) })
	if len(known) != length {
		known = l
	}
	if len(known) != length {
		return nil
	}
	for _, d := range known {
		all = append(all, d.Digest)
	}
	return all
}

// unpacked is what a snapshot is made of.
type unpacked struct {
	all   string        // a hash of its layers, down to the lowest
	layer digest.Digest // the upmost
}

// reads takes note of a manifest or config that containerd reads. What cannot be read it will tell by itself.
func (l *layers) reads(desc ocispec.Descriptor, r content.ReaderAt) {
	isManifest := images.IsManifestType(desc.MediaType)
	if r.Size() > docker.MaxManifestSize || !isManifest && !l.isConfig(desc.Digest) {
		return
	}
	data, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err != nil {
		return
	}
	if isManifest {
		l.readManifest(data)
	} else {
		l.readConfig(desc.Digest, data)
	}
}

func (l *layers) isConfig(d digest.Digest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.manifests[d]
	return ok
}

func (l *layers) readManifest(data []byte) {
	var m ocispec.Manifest
	if json.Unmarshal(data, &m) != nil {
		return
	}
	all := layout(m.Layers)
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.manifests[m.Config.Digest]; ok && !slices.EqualFunc(all, other, sameLayer) {
		all = nil // it unpacks those of either
	}
	if l.manifests == nil {
		l.manifests, l.unpacked = map[digest.Digest]layout{}, map[digest.Digest]unpacked{}
	}
	l.manifests[m.Config.Digest] = all
}

func sameLayer(a, b ocispec.Descriptor) bool {
	return a.Digest == b.Digest && a.MediaType == b.MediaType
}

func (l *layers) readConfig(d digest.Digest, data []byte) {
	var config ocispec.Image
	if json.Unmarshal(data, &config) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.manifests[d].chain(len(config.RootFS.DiffIDs))
	hash := sha256.New()
	for i, id := range identity.ChainIDs(config.RootFS.DiffIDs) {
		var of unpacked
		if all != nil {
			hash.Write([]byte(all[i] + "\n"))
			of = unpacked{hex.EncodeToString(hash.Sum(nil)), all[i]}
		}
		if other, ok := l.unpacked[id]; ok && other != of {
			of = unpacked{}
		}
		l.unpacked[id] = of
	}
}

// turnOf returns the turn for a key of containerd's unpacker, and the content that is downloaded, or unpacked, in it; "" where that is not known.
func (l *layers) turnOf(key string) (turn string, of digest.Digest) {
	if blob, ok := blobOf(key); ok {
		return key, blob
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.unpacked[digest.Digest(key[strings.LastIndexByte(key, '/')+1:])]
	return key + "@" + u.all, u.layer
}
