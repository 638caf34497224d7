// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"regexp"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// minors are those of containerd that pullwarden is tested with, and what each lacks
// beside the newest. docs/versions.md has them in a table.
var minors = map[string][]string{
	"2.4": nil,
	"2.3": {
		"CRI has no StreamImages: the kubelet asks for the list of images in one answer",
	},
}

var minorOf = regexp.MustCompile(`^v?(\d+\.\d+)\.`)

// logMinor says what the minor of a version of containerd cannot do, and warns of one
// that nobody has tried.
func logMinor(ctx context.Context, version string) {
	minor := version
	if m := minorOf.FindStringSubmatch(version); m != nil {
		minor = m[1]
	}
	lacks, tested := minors[minor]
	if !tested {
		prefixlog.G(ctx).Warnf("not tested with containerd %s", version)
	}
	for _, l := range lacks {
		prefixlog.G(ctx).Infof("containerd %s: %s", minor, l)
	}
}
