// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/documents"
)

// layers knows of which content a pull unpacks what. containerd locks an unpacking by what the config of an image claims that it
// comes to. Any image may claim that of any layers: those that unpack for hours, or to something else. So
// only those wait for each other that unpack the same. The zero value is ready, and safe for concurrent use.
type layers struct {
	types map[string]bool // that are layers beside those of images: see unpack.Platform

	mu        sync.Mutex
	named     map[digest.Digest][]unpacked // by all that a manifest names beside its layers: what is unpacked if that is the config
	snapshots map[digest.Digest]unpacked   // by chain ID
	unsure    bool                         // a document was not read, which may say something else of any
}

// unpacked is what a snapshot is made of. The zero value is that of one of which nobody knows.
type unpacked struct {
	all   string        // a hash of its layers, down to the lowest
	layer digest.Digest // the upmost
	below int           // how often it is below, too
}

// reads takes note of a manifest or config that containerd reads. What is no such document it will tell by itself.
func (l *layers) reads(desc ocispec.Descriptor, r content.ReaderAt) {
	isManifest := images.IsManifestType(desc.MediaType)
	if !isManifest && !l.mayBeConfig(desc.Digest) {
		return
	}
	data, ok := document(desc, r)
	switch {
	case !ok:
		l.mu.Lock()
		l.unsure = true
		l.mu.Unlock()
	case isManifest:
		l.readManifest(data)
	default:
		l.readConfig(desc.Digest, data)
	}
}

// document returns a document that is to be decoded. It is opened before others see whether it has too many objects for that.
func document(desc ocispec.Descriptor, r content.ReaderAt) (data []byte, ok bool) {
	if r.Size() > docker.MaxManifestSize {
		return nil, false
	}
	data, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	return data, err == nil && documents.Validate(desc.MediaType, data) == nil
}

func (l *layers) mayBeConfig(d digest.Digest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.named[d]
	return ok
}

// readManifest parts what a manifest names as unpack.Unpacker does, which unpacks its layers by whatever else of it has the type of a
// config, if the manifest's own has not, say.
func (l *layers) readManifest(data []byte) {
	var m ocispec.Manifest
	if json.Unmarshal(data, &m) != nil {
		return
	}
	var (
		all    []unpacked
		others []digest.Digest
		hash   = sha256.New()
		below  = map[digest.Digest]int{}
	)
	for _, d := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		if !images.IsLayerType(d.MediaType) && !l.types[d.MediaType] {
			others = append(others, d.Digest)
			continue
		}
		hash.Write([]byte(d.Digest + "\n"))
		all = append(all, unpacked{hex.EncodeToString(hash.Sum(nil)), d.Digest, below[d.Digest]})
		below[d.Digest]++
	}
	if len(all) == 0 {
		return // there is nothing to unpack
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.named == nil {
		l.named, l.snapshots = map[digest.Digest][]unpacked{}, map[digest.Digest]unpacked{}
	}
	var either []unpacked // one for all: there may be very many others, and layers
	for _, d := range others {
		if before, ok := l.named[d]; ok && !same(before, all) {
			if n := max(len(before), len(all)); len(either) < n {
				either = make([]unpacked, n)
			}
			l.named[d] = either // it unpacks those of one or the other
		} else {
			l.named[d] = all
		}
	}
}

// same compares the layers of two manifests, which have some.
func same(a, b []unpacked) bool { return len(a) == len(b) && a[len(a)-1] == b[len(b)-1] }

func (l *layers) readConfig(d digest.Digest, data []byte) {
	var config struct {
		RootFS ocispec.RootFS `json:"rootfs"`
	}
	if json.Unmarshal(data, &config) != nil {
		return
	}
	diffIDs := config.RootFS.DiffIDs
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.named[d]
	switch {
	case len(diffIDs) > len(all):
		return // containerd refuses it
	case len(diffIDs) < len(all): // so it does, unless to the platforms of this pull some are no layers
		all = make([]unpacked, len(diffIDs))
	}
	for i, id := range identity.ChainIDs(diffIDs) {
		of := all[i]
		if other, ok := l.snapshots[id]; ok && other != of {
			of = unpacked{}
		}
		l.snapshots[id] = of
	}
}

// turnOf returns the turn for a key of containerd's unpacker, and the content that is downloaded, or unpacked, in it. Where that is not
// known it is "", and the turn is nobody else's.
func (l *layers) turnOf(key string) (turn string, of digest.Digest) {
	if blob, ok := blobOf(key); ok {
		return key, blob
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var u unpacked
	if !l.unsure {
		u = l.snapshots[chainOf(key)]
	}
	return key + "@" + cmp.Or(u.all, rand.Text()), u.layer
}

// below returns how often the layer that is unpacked in the turn for a key is below, too.
func (l *layers) below(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snapshots[chainOf(key)].below
}

// chainOf returns the chain ID in the key for a snapshot.
func chainOf(key string) digest.Digest { return digest.Digest(key[strings.LastIndexByte(key, '/')+1:]) }
