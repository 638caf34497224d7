// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A registry that tells names by their case, or of two takes the first one, has made sure of other layers than containerd reads.
func TestNamesThatOthersReadOtherwise(t *testing.T) {
	const manifest, index = ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex
	d := digest.FromString("good").String()
	fine := fmt.Sprintf(`{"mediaType":"a/b","digest":%q,"size":1,"annotations":{"a":"","A":"","digest":"","Digest":""}}`, d)
	with := func(member string) string { return "{" + member + "," + fine[1:] }
	for _, tc := range []struct{ mediaType, document, refused string }{
		{manifest, `{"schemaVersion":2,"config":` + fine + `,"layers":[` + fine + `,` + fine + `],"annotations":{"Layers":"","layers":""}}`, ""},
		{manifest, `{"layers":null,"config":{}}`, "config.digest"},
		{manifest, `{"layers":[` + fine + `],"layers":[]}`, "layers"},
		{manifest, `{"layers":[],"Layers":[` + fine + `]}`, "layers"},
		{manifest, `{"LAYERS":[` + fine + `]}`, "layers"},
		{manifest, `{"layer\u017f":[` + fine + `]}`, "layers"}, // to Go an s
		{manifest, `{"l\u0061yers":[],"layers":[]}`, "layers"},
		{manifest, `{"config":` + fine + `,"config":` + fine + `}`, "config"},
		{manifest, `{"config":` + with(`"Digest":"`+d+`"`) + `}`, "config.digest"},
		{manifest, `{"layers":[` + fine + `,` + with(`"digest":"`+d+`"`) + `]}`, "layers[1].digest"},
		{manifest, `{"layers":[` + with(`"URLs":["http://a.test"]`) + `]}`, "layers[0].urls"},
		{index, `{"manifests":[` + fine + `]}`, ""},
		{index, `{"manifests":[],"manifests":[]}`, "manifests"},
		{index, `{"manifests":[` + with(`"Size":2`) + `]}`, "manifests[0].size"},
		{ocispec.MediaTypeImageConfig, `{"config":{},"Config":{}}`, ""},
	} {
		err := Validate(tc.mediaType, []byte(tc.document))
		if (err != nil) != (tc.refused != "") || err != nil && !strings.HasPrefix(err.Error(), tc.refused+" ") {
			t.Errorf("%s: got %v, want %q", tc.document, err, tc.refused)
		}
	}
}
