// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/plugin/engine"
)

// A line that a crash of the machine has cut short does not spoil the next one.
func TestLineThatWasCutShort(t *testing.T) {
	t.Parallel()
	const cut = `{"time":"2026-01-02T12:0`
	for name, before := range map[string]string{"no line": "", "whole lines": "{}\n", "a cut one": "{}\n" + cut} {
		path := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(path, []byte(before), fileMode); err != nil {
			t.Fatal(err)
		}
		l, err := Open(path, func() { t.Error("a line is lost") })
		if err != nil {
			t.Fatal(err)
		}
		l.Observe(t.Context(), engine.Outcome{Kind: engine.Pulled, Name: "registry.test/app:1"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		after, found := strings.CutPrefix(string(data), before)
		if err != nil || !found || strings.HasPrefix(after, "\n") != strings.HasSuffix(before, cut) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		var line Line
		if err := json.Unmarshal([]byte(after), &line); err != nil || line.Outcome != string(engine.Pulled) {
			t.Errorf("%s: %q: %v", name, after, err)
		}
	}
}
