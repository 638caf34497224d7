// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// manifests reports where manifests are read, and a refusal of them is passed over.
func (d *document) manifests(set policy.Overrides, e policy.Effective, path func(policy.Key) string) {
	if e.CheckWith != policy.Manifest || e.Policy != policy.IfDigestChanged {
		return
	}
	for _, class := range []failure.Class{failure.Forbidden, failure.Invalid} {
		k, _ := policy.KeyOn(class)
		if e.On.Has(class) && (set.Has(k) || set.Has(policy.KeyCheckWith)) {
			d.addAt(RefusalIgnored, fmt.Sprintf("%s may use the cached image although the registry refuses its manifest, which check_with = %q is there to find out",
				e.Describe(k), e.Value(policy.KeyCheckWith)), path(k), path(policy.KeyCheckWith))
		}
	}
}

// manifestsOfDockerHub reports a rule for images of Docker Hub by which each check counts
// as a pull there. Of globs that are about several registries nobody knows which one is meant.
func (r ruleDocument) manifestsOfDockerHub(e policy.Effective, path func(policy.Key) string) {
	asks := e.Policy == policy.Always || e.Policy == policy.IfDigestChanged
	if e.CheckWith != policy.Manifest || e.MaxAge > 0 || !asks {
		return
	}
	for _, glob := range r.rule.Images {
		if glob.Registry() == "docker.io" {
			r.addAt(PullsForChecks, fmt.Sprintf("Docker Hub counts each check with check_with = %q as a pull, and max_age = %q makes one at each start",
				e.Value(policy.KeyCheckWith), e.Value(policy.KeyMaxAge)), path(policy.KeyCheckWith), r.path())
			return
		}
	}
}
