// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	pwconfig "github.com/pullwarden/pullwarden/plugin/config"
)

// nearlyOurs reports sections whose names are nearly that of pullwarden's: containerd
// hands none of them to anybody, and the daemon cannot see them.
func (d *document) nearlyOurs() {
	var document map[string]any
	if toml.Unmarshal(d.data, &document) != nil {
		return // its syntax was reported
	}
	for _, name := range slices.Sorted(maps.Keys(document)) {
		d.nearlyOurSection(name, name)
	}
	plugins, _ := document["plugins"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		if name != pwconfig.Plugin {
			d.nearlyOurSection(name, "plugins", name)
		}
	}
}

func (d *document) nearlyOurSection(name string, path ...string) {
	short := pwconfig.Plugin[strings.LastIndexByte(pwconfig.Plugin, '.')+1:]
	last := name[strings.LastIndexByte(name, '.')+1:]
	if tomlfile.Nearest(last, []string{short}) != "" || tomlfile.Nearest(name, []string{pwconfig.Plugin}) != "" {
		d.addAt(NearlyOurSection, fmt.Sprintf("nobody reads this section: did you mean [plugins.%q]?", pwconfig.Plugin), tomlfile.Path(path...))
	}
}
