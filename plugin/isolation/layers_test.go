// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// inMemory is a document.
type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }

// read has layers read something, and returns its descriptor.
func read(t *testing.T, l *layers, mediaType string, v any) ocispec.Descriptor {
	t.Helper()
	data, err := json.Marshal(v)
	check(t, err)
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	l.reads(d, inMemory{bytes.NewReader(data)})
	return d
}

// configOf is the config of an image whose layers unpack to these.
func configOf(diffIDs ...digest.Digest) ocispec.Image {
	return ocispec.Image{RootFS: ocispec.RootFS{Type: "layers", DiffIDs: diffIDs}}
}

// configDocument is the descriptor of a config.
func configDocument(t *testing.T, config ocispec.Image) ocispec.Descriptor {
	t.Helper()
	var unread layers
	return read(t, &unread, ocispec.MediaTypeImageConfig, config)
}

// image has layers read an image, whose config claims that.
func (l *layers) image(t *testing.T, config ocispec.Image, manifests ...[]ocispec.Descriptor) {
	t.Helper()
	of := configDocument(t, config)
	for _, all := range manifests {
		read(t, l, ocispec.MediaTypeImageManifest, ocispec.Manifest{Config: of, Layers: all})
	}
	read(t, l, ocispec.MediaTypeImageConfig, config)
}

func layerOf(name string) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString(name), Size: 1}
}

// Two pulls wait for each other's unpacking where they unpack the same content to the same snapshot, from the lowest layer on: what
// the config of an image claims of other layers holds up nobody.
func TestTurnsOfUnpackings(t *testing.T) {
	a, b := digest.FromString("a unpacked"), digest.FromString("b unpacked")
	key := func(diffIDs ...digest.Digest) string { return "sn://overlayfs/" + identity.ChainID(diffIDs).String() }
	type pair = []ocispec.Descriptor
	odd := layerOf("a")
	odd.MediaType = "application/x-test"
	oddTypes := map[string]bool{odd.MediaType: true}
	for what, tc := range map[string]struct {
		config    ocispec.Image
		manifests [][]ocispec.Descriptor
		same      []bool          // as an image of layers a and b, of its first and of its second layer
		types     map[string]bool // that platforms are configured to unpack
	}{
		"the same":                   {configOf(a, b), [][]ocispec.Descriptor{{layerOf("a"), layerOf("b")}}, []bool{true, true}, nil},
		"the lower one":              {configOf(a, b), [][]ocispec.Descriptor{{layerOf("a"), layerOf("evil")}}, []bool{true, false}, nil},
		"the upper one":              {configOf(a, b), [][]ocispec.Descriptor{{layerOf("evil"), layerOf("b")}}, []bool{false, false}, nil},
		"an attestation beside them": {configOf(a, b), [][]ocispec.Descriptor{{layerOf("a"), odd, layerOf("b")}}, []bool{true, true}, nil},
		"of a configured type":       {configOf(a, b), [][]ocispec.Descriptor{{odd, layerOf("b")}}, []bool{true, true}, oddTypes},
		"of a type that none has":    {configOf(a, b), [][]ocispec.Descriptor{{odd, layerOf("b")}}, []bool{false, false}, nil},
		"of a type of other pulls":   {configOf(a), [][]ocispec.Descriptor{{odd, layerOf("evil")}}, []bool{false, false}, oddTypes},
		"too few":                    {configOf(a, b), [][]ocispec.Descriptor{{layerOf("a")}}, []bool{false, false}, nil},
		"two manifests":              {configOf(a, b), [][]ocispec.Descriptor{{layerOf("evil"), layerOf("b")}, {layerOf("a"), layerOf("b")}}, []bool{false, false}, nil},
		"a manifest twice":           {configOf(a, b), [][]ocispec.Descriptor{{layerOf("a"), layerOf("b")}, {layerOf("a"), layerOf("b")}}, []bool{true, true}, nil},
		"another with other layers":  {configOf(a, b), [][]ocispec.Descriptor{{layerOf("a"), layerOf("b")}, {layerOf("a")}}, []bool{false, false}, nil},
		"another without any":        {configOf(a, b), [][]ocispec.Descriptor{{layerOf("a"), layerOf("b")}, {odd}}, []bool{true, true}, nil},
		"nothing that is known":      {configOf(a, b), nil, []bool{false, false}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			var good, other layers
			good.image(t, configOf(a, b), pair{layerOf("a"), layerOf("b")})
			other.types = tc.types
			other.image(t, tc.config, tc.manifests...)
			for i, chain := range [][]digest.Digest{{a}, {a, b}} {
				want, of := good.turnOf(key(chain...))
				got, _ := other.turnOf(key(chain...))
				if (got == want) != tc.same[i] {
					t.Errorf("layer %d: %s and %s", i, want, got)
				}
				if of != layerOf([]string{"a", "b"}[i]).Digest {
					t.Errorf("layer %d is %s", i, of)
				}
			}
		})
	}
	var l, unknown layers
	turn, _ := l.turnOf(key(a))
	if other, _ := unknown.turnOf(key(a)); turn == other {
		t.Errorf("two pulls that know nothing of what they unpack wait for each other: %s", turn)
	}
	if turn, of := l.turnOf("blob://" + a.String()); turn != "blob://"+a.String() || of != a {
		t.Errorf("the turn of content is %s, of %s", turn, of)
	}
}

// A manifest unpacks its layers by each config that it names, whatever has the place of its own config, and however many layers that has.
func TestTurnsOfAConfigAmongTheLayers(t *testing.T) {
	a, b := digest.FromString("a unpacked"), digest.FromString("b unpacked")
	key := "sn://overlayfs/" + a.String()
	var good, evil layers
	good.image(t, configOf(a, b), []ocispec.Descriptor{layerOf("a"), layerOf("b")})
	odd := layerOf("a")
	odd.MediaType = "application/x-test"
	evil.image(t, configOf(a, b, b), []ocispec.Descriptor{odd, layerOf("slow"), configDocument(t, configOf(a))})
	read(t, &evil, ocispec.MediaTypeImageConfig, configOf(a)) // by which "slow" is unpacked
	want, _ := good.turnOf(key)
	if turn, of := evil.turnOf(key); turn == want || of != layerOf("slow").Digest {
		t.Errorf("while it unpacks another layer, it has the turn %s, of %s", turn, of)
	}
}

// A document of more objects than are allowed is not decoded, and nothing is known then. No chain IDs are computed of more layers than the manifest has.
func TestLayersOfManyObjects(t *testing.T) {
	many := func(head, element, tail string) []byte {
		return []byte(head + element + strings.Repeat(","+element, (4<<20-len(head)-len(tail))/(len(element)+1)-1) + tail)
	}
	inBounds, err := json.Marshal(configOf(slices.Repeat([]digest.Digest{digest.FromString("a unpacked")}, 9_000)...))
	check(t, err)
	for what, d := range map[string]struct {
		mediaType string
		data      []byte
		isRead    bool
	}{
		"config":           {ocispec.MediaTypeImageConfig, many(`{"rootfs":{"type":"layers","diff_ids":[`, `""`, `]}}`), false},
		"manifest":         {ocispec.MediaTypeImageManifest, many(`{"layers":[`, `{}`, `]}`), false},
		"config in bounds": {ocispec.MediaTypeImageConfig, inBounds, true},
	} {
		t.Run(what, func(t *testing.T) {
			var l layers
			l.image(t, configOf(digest.FromString("another")), []ocispec.Descriptor{layerOf("a")})
			desc := ocispec.Descriptor{MediaType: d.mediaType, Digest: digest.FromBytes(d.data), Size: int64(len(d.data))}
			read(t, &l, ocispec.MediaTypeImageManifest, ocispec.Manifest{Config: desc, Layers: []ocispec.Descriptor{layerOf("a")}})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			l.reads(desc, inMemory{bytes.NewReader(d.data)})
			runtime.ReadMemStats(&after)
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 40<<20 {
				t.Errorf("%d bytes of memory are taken for %d", taken, len(d.data))
			}
			if len(l.snapshots) > 1 {
				t.Errorf("%d snapshots are kept, of images of one layer", len(l.snapshots))
			}
			if _, of := l.turnOf("sn://overlayfs/" + digest.FromString("another").String()); (of != "") != d.isRead {
				t.Errorf("of another image, %q is unpacked, beside one that was read: %v", of, d.isRead)
			}
		})
	}
}

// A pull learns that from what containerd reads by its view.
func TestLayersOfWhatIsRead(t *testing.T) {
	ctx, view := newContents(t)
	c := view(alice)
	c.layers = new(layers)
	write := func(mediaType string, v any) ocispec.Descriptor {
		data, err := json.Marshal(v)
		check(t, err)
		d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		check(t, content.WriteBlob(ctx, c, d.Digest.String(), bytes.NewReader(data), d))
		return d
	}
	a := digest.FromString("a unpacked")
	config := write(ocispec.MediaTypeImageConfig, configOf(a))
	manifest := write(ocispec.MediaTypeImageManifest, ocispec.Manifest{Config: config, Layers: []ocispec.Descriptor{layerOf("a")}})
	for _, d := range []ocispec.Descriptor{manifest, config} {
		_, err := content.ReadBlob(context.WithoutCancel(ctx), c, d)
		check(t, err)
	}
	if _, of := c.layers.turnOf("sn://overlayfs/" + a.String()); of != layerOf("a").Digest {
		t.Errorf("%s is unpacked", of)
	}
}
