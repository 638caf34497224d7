// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// startsByDigest reports globs with a tag of a rule under which every start needs a
// proof, where pods may start the same images by their digests without one. The
// directives are those of all rules, in their order, and last those without a rule.
func (r ruleDocument) startsByDigest(all []policy.Effective) {
	for i := range all {
		if all[i].Rule == r.rule && !all[i].ProvesStarts() {
			return
		}
	}
	for i, glob := range r.rule.Images {
		repository, tagged := glob.WithoutTag()
		if !tagged {
			continue
		}
		for j := range all {
			if rule := all[j].Rule; rule != nil && !rule.Covers(repository, r.rule.Namespaces) {
				continue
			}
			if !all[j].ProvesStarts() {
				r.addAt(StrictByTag, fmt.Sprintf("%q matches no reference by digest: by that a pod starts the same image without the proof that the rule wants, with imagePullPolicy: IfNotPresent or Never; a rule for %q would match both",
					glob, repository), tomlfile.Element(r.path()+".images", i+1))
			}
			break
		}
	}
}
