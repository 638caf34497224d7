// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/api"
	"github.com/pullwarden/pullwarden/plugin/status"
)

// A name is shown in its row, and does nothing to a terminal: an archive names the images in it as it likes, and
// containerd keeps that.
func TestStatusOfNamesThatAreNotPrintable(t *testing.T) {
	r := status.New([]images.Image{{
		Name:   "evil\x1b[2J\x1b]0;x\x07\nhealthy: 9 rules\t-/app:1",
		Target: ocispec.Descriptor{Digest: digest.FromString("a")},
	}}, api.Status{})
	for what, show := range map[string]struct {
		show func(b *bytes.Buffer) error
		rows int
	}{
		"table": {func(b *bytes.Buffer) error { writeImages(b, r.Images, time.Now(), 200); return nil }, 2},
		"wide":  {func(b *bytes.Buffer) error { writeWide(b, r.Images, time.Now()); return nil }, 2},
		"quiet": {func(b *bytes.Buffer) error {
			s := statusScreen{w: b, flags: &statusFlags{quiet: true}}
			return s.show(r, time.Now())
		}, 1},
	} {
		var b bytes.Buffer
		if err := show.show(&b); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if strings.ContainsAny(b.String(), "\x1b\x07\t") || strings.Count(b.String(), "\n") != show.rows {
			t.Errorf("%s: %q", what, b.String())
		}
	}
}
