// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"regexp"
	"strconv"
	"strings"
)

// versionPattern finds the version in what containerd --version prints: stock prints v2.4.2,
// distributions 2.4.2~ds1 and the like.
var versionPattern = regexp.MustCompile(`^containerd \S+ v?((\d+)\.(\d+)\.(\d+)\S*)`)

// Version is that of a containerd binary. The zero value is an unknown one.
type Version struct {
	Full                string // as the daemon tells it
	Major, Minor, Patch int
}

// parseVersion reads what containerd --version prints.
func parseVersion(output string) (Version, bool) {
	m := versionPattern.FindStringSubmatch(strings.TrimSpace(output))
	if m == nil {
		return Version{}, false
	}
	v := Version{Full: strings.Fields(output)[2]}
	for i, field := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*field, _ = strconv.Atoi(m[i+2]) // digits; too many of them are no minor of ours
	}
	return v, true
}

// MinorText is the minor as people say it: 2.4.
func (v Version) MinorText() string { return strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor) }

func (v Version) sameMinor(other Version) bool {
	return v.Major == other.Major && v.Minor == other.Minor
}

// ours says whether pullwarden is in it.
func (v Version) ours() bool { return strings.Contains(v.Full, "+pullwarden.") }
