// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

func TestLogMinor(t *testing.T) {
	for _, tt := range []struct{ version, want string }{
		{"v2.4.2+pullwarden.1", ""},
		{"2.4.2", ""},
		{"v2.3.7+pullwarden.1", "info: pullwarden: containerd 2.3: CRI has no StreamImages: the kubelet asks for the list of images in one answer"},
		{"v2.40.0", "warning: pullwarden: not tested with containerd v2.40.0"},
		{"unknown", "warning: pullwarden: not tested with containerd unknown"},
	} {
		logger, hook := test.NewNullLogger()
		logMinor(log.WithLogger(t.Context(), logrus.NewEntry(logger)), tt.version)
		var got []string
		for _, entry := range hook.AllEntries() {
			got = append(got, entry.Level.String()+": "+entry.Message)
		}
		if text := strings.Join(got, "\n"); text != tt.want {
			t.Errorf("%s: %q, want %q", tt.version, text, tt.want)
		}
	}
}

// The page names each minor, and what it lacks.
func TestDocumentedMinors(t *testing.T) {
	data, err := os.ReadFile("../docs/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(data)), " ")
	for minor, lacks := range minors {
		modfile := "../builds/containerd-" + minor + ".mod"
		if _, err := os.Stat(modfile); errors.Is(err, os.ErrNotExist) {
			modfile = "../go.mod"
		}
		module, err := os.ReadFile(modfile)
		if err != nil {
			t.Fatal(err)
		}
		built := regexp.MustCompile(`containerd/v2 v(\d+\.\d+\.\d+)`).FindSubmatch(module)
		if row := fmt.Sprintf("| %s | %s |", minor, built[1]); !strings.Contains(page, row) {
			t.Errorf("the page does not have the row %s", row)
		}
		for _, l := range lacks {
			if !strings.Contains(page, l) {
				t.Errorf("the page does not say of %s: %s", minor, l)
			}
		}
	}
}

// The tests run with a minor that the table has.
func TestMinorIsTested(t *testing.T) {
	m := minorOf.FindStringSubmatch(version.Version)
	if m == nil {
		t.Fatalf("containerd calls itself %s", version.Version)
	}
	if _, tested := minors[m[1]]; !tested {
		t.Errorf("%s is not in the table", m[1])
	}
}
