// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"testing"

	"github.com/opencontainers/go-digest"
)

// A registry that tells names by their case, or of two takes the first one, has made sure of other layers than containerd reads.
func TestNamesThatOthersReadOtherwise(t *testing.T) {
	d := digest.FromString("good").String()
	fine := fmt.Sprintf(`{"mediaType":"a/b","digest":%q,"size":1,"annotations":{"a":"","A":"","digest":"","Digest":""}}`, d)
	with := func(member string) string { return "{" + member + "," + fine[1:] }
	for _, tc := range []struct{ document, refused string }{
		{`{"schemaVersion":2,"config":` + fine + `,"layers":[` + fine + `,` + fine + `],"annotations":{"Layers":"","layers":""}}`, ""},
		{`{"layers":null,"config":{}}`, ""},
		{`[]`, ""},
		{`{"layers":[` + fine + `],"layers":[]}`, "layers"},
		{`{"layers":[],"Layers":[` + fine + `]}`, "layers"},
		{`{"LAYERS":[` + fine + `]}`, "layers"},
		{`{"layer\u017f":[` + fine + `]}`, "layers"}, // to Go an s
		{`{"l\u0061yers":[],"layers":[]}`, "layers"},
		{`{"config":` + fine + `,"config":` + fine + `}`, "config"},
		{`{"config":` + with(`"Digest":"`+d+`"`) + `}`, "config.digest"},
		{`{"layers":[` + fine + `,` + with(`"digest":"`+d+`"`) + `]}`, "layers[1].digest"},
		{`{"layers":[` + with(`"URLs":["http://a.test"]`) + `]}`, "layers[0].urls"},
		{`{"manifests":[` + fine + `]}`, ""},
		{`{"manifests":[],"manifests":[]}`, "manifests"},
		{`{"manifests":[` + with(`"Size":2`) + `]}`, "manifests[0].size"},
	} {
		if got := ambiguous([]byte(tc.document)); got != tc.refused {
			t.Errorf("%s: got %q, want %q", tc.document, got, tc.refused)
		}
	}
}
