// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The README names the metrics that there are, and no others.
func TestDocumentedMetrics(t *testing.T) {
	t.Parallel()
	names := func(path, pattern string) []string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	if diff := cmp.Diff(names("metrics.go", `"(pullwarden_[a-z_]+)"`), names("../README.md", `(pullwarden_[a-z_]+)`)); diff != "" {
		t.Errorf("-metrics +README\n%s", diff)
	}
}
