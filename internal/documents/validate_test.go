// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestValidate(t *testing.T) {
	const manifest, index, config = ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageConfig
	good := func(mediaType string) string {
		return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":1}`, mediaType, digest.FromString("good"))
	}
	fine, long := good("application/x"), strings.Repeat("x", 256)
	bad := func(d string) string { return fmt.Sprintf(`{"mediaType":"application/x","digest":%q,"size":1}`, d) }
	of := func(config, layers string) string { return fmt.Sprintf(`{"config":%s,"layers":[%s]}`, config, layers) }
	data := func(length int) string {
		return strings.TrimSuffix(fine, "}") + fmt.Sprintf(`,"data":%q}`, base64.StdEncoding.EncodeToString(make([]byte, length)))
	}
	diffIDs := func(all ...string) string {
		return fmt.Sprintf(`{"rootfs":{"type":"layers","diff_ids":["%s"]}}`, strings.Join(all, `","`))
	}
	for _, tc := range []struct {
		what, mediaType, document string
		refused                   string // the field; "" = it is not
	}{
		{"a manifest", manifest, of(fine, fine+","+good(long[:255])), ""},
		{"one of docker", images.MediaTypeDockerSchema2Manifest, of(fine, bad("none")), "layers[0].digest"},
		{"sha512", manifest, of(fine, bad(digest.SHA512.FromString("").String())), ""},
		{"no layers", manifest, `{"config":` + fine + `}`, ""},
		{"no config", manifest, `{"layers":[` + fine + `]}`, ""},
		{"a bad config, and none", manifest, `{"config":` + bad("none") + `,"config":null}`, "config.digest"},
		{"a long type of a config, and none", manifest, `{"config":` + good(long) + `,"config":null}`, "config.mediaType"},
		{"some data", manifest, of(fine, data(maxData)), ""},
		{"much data of a config", manifest, of(data(maxData+1), fine), "config.data"},
		{"much data of a layer", manifest, of(fine, data(maxData+1)), "layers[0].data"},
		{"much data of a manifest", index, `{"manifests":[` + data(maxData+1) + `]}`, "manifests[0].data"},
		{"an empty config", manifest, of("{}", fine), "config.digest"},
		{"many objects", manifest, of(fine, strings.Repeat("{},", maxObjects)+"{}"), "it"},
		{"a bad config", manifest, of(bad("sha256:00"), fine), "config.digest"},
		{"a bad layer", manifest, of(fine, fine+","+bad("sha257:00")), "layers[1].digest"},
		{"no algorithm that is known", manifest, of(fine, bad("crc32:00000000")), "layers[0].digest"},
		{"a layer without a digest", manifest, of(fine, "{}"), "layers[0].digest"},
		{"a path", manifest, of(fine, bad("sha256:../../../etc/passwd")), "layers[0].digest"},
		{"upper case", manifest, of(fine, bad("sha256:"+strings.ToUpper(digest.FromString("").Encoded()))), "layers[0].digest"},
		{"a long type of a layer", manifest, of(fine, good(long)), "layers[0].mediaType"},
		{"a long type of a config", manifest, of(good(long), fine), "config.mediaType"},
		{"a long type of its own", manifest, `{"mediaType":"` + long + `","config":` + fine + `}`, "mediaType"},
		{"no manifest", manifest, `[]`, ""},
		{"an index", index, `{"manifests":[` + fine + `,` + fine + `]}`, ""},
		{"an empty index", index, `{}`, ""},
		{"a list of docker", images.MediaTypeDockerSchema2ManifestList, `{"manifests":[` + bad("none") + `]}`, "manifests[0].digest"},
		{"a bad manifest", index, `{"manifests":[` + fine + `,` + bad("") + `]}`, "manifests[1].digest"},
		{"a long type of a manifest", index, `{"manifests":[` + good(long) + `]}`, "manifests[0].mediaType"},
		{"a long type of an index", index, `{"mediaType":"` + long + `"}`, "mediaType"},
		{"a config", config, diffIDs(digest.FromString("1").String(), digest.FromString("2").String()), ""},
		{"a config of docker", images.MediaTypeDockerSchema2Config, diffIDs("none"), "rootfs.diff_ids[0]"},
		{"a bad diff ID", config, diffIDs(digest.FromString("1").String(), "a-snapshot"), "rootfs.diff_ids[1]"},
		{"a config of something else", config, `{"config":{"digest":1}}`, ""},
		{"no JSON", config, "text", ""},
		{"something else", "application/x", of(bad("none"), bad("none")), ""},
	} {
		err := Validate(tc.mediaType, []byte(tc.document))
		if (err != nil) != (tc.refused != "") || err != nil && !strings.HasPrefix(err.Error(), tc.refused+" ") {
			t.Errorf("%s: %v, want %q", tc.what, err, tc.refused)
		}
		if err != nil && len(err.Error()) > 2*maxQuoted {
			t.Errorf("%s: an error of %d bytes", tc.what, len(err.Error()))
		}
	}
}

// FuzzValidate ends for everything that a registry may send.
func FuzzValidate(f *testing.F) {
	f.Add(`{"layers":[{"digest":"sha256:0"}]}`)
	f.Fuzz(func(_ *testing.T, text string) {
		for _, mediaType := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageConfig} {
			_ = Validate(mediaType, []byte(text))
		}
	})
}

// A registry may name something by the secret that it was sent. Of what is cut nobody would
// find it any more.
func TestErrorsPartNoDigest(t *testing.T) {
	for n := range 300 {
		d := strings.Repeat("x", n) + "open-sesame-0123456789"
		for what, err := range map[string]error{
			"digest":   CheckDigest("digest", digest.Digest(d)),
			"Validate": Validate(ocispec.MediaTypeImageIndex, fmt.Appendf(nil, `{"manifests":[{"digest":%q}]}`, d)),
		} {
			switch {
			case err == nil:
				t.Errorf("%s of %d bytes: no error", what, len(d))
			case strings.Contains(err.Error(), "open") != strings.Contains(err.Error(), d):
				t.Errorf("%s of %d bytes is parted: %v", what, len(d), err)
			case len(err.Error()) > 400:
				t.Errorf("%s of %d bytes: an error of %d bytes", what, len(d), len(err.Error()))
			}
		}
	}
}

// A user of a config is bounded, however its name is spelt.
func TestUsersAreBounded(t *testing.T) {
	for length, refused := range map[int]bool{maxUser: false, maxUser + 1: true} {
		for _, key := range []string{"User", "user"} {
			err := Validate(ocispec.MediaTypeImageConfig, []byte(`{"config":{"`+key+`":"`+strings.Repeat("x", length)+`"}}`))
			if (err != nil) != refused || refused && !strings.HasPrefix(err.Error(), "config.User ") {
				t.Errorf("%s of %d bytes: %v", key, length, err)
			}
		}
	}
}
