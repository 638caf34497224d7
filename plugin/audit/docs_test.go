// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The page has a row for each key.
func TestDocumentedKeys(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	for field := range reflect.TypeFor[Line]().Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		found := false
		for row := range strings.Lines(string(page)) {
			cell, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
			found = found || strings.HasPrefix(row, "|") && strings.Contains(cell, "`"+key+"`")
		}
		if !found {
			t.Errorf("%s has no row", key)
		}
	}
}
