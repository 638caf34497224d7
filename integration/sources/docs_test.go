// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestSourceMatrixIsDocumented holds that the page shows each row that is
// tested, with the same outcome.
func TestSourceMatrixIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("{m}", "mirror.test:5000", "{n}", "second.test", "{o}", "origin.test", "{ref}", ":1")
	for _, row := range matrixRows {
		line := names.Replace(fmt.Sprintf("| %s | `%s` | %s | %s |", row.what, row.source, row.byTag, row.byHash))
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("docs/sources.md lacks:\n%s", line)
		}
	}
}
