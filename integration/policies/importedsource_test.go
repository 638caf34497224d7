// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestImportedImageUnderAllowedSources holds that an imported image is not reused where allowed_sources limits
// its sources. It is what `pullwarden test` has to foresee: plugin/ruletest, TestUnknownImageIsFromNoAllowedSource.
func TestImportedImageUnderAllowedSources(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref := nodetest.Named("app:1")
	n.Import(ref, nodetest.Image(1))
	n.Registry.Refuse()
	for _, policy := range []string{"IfDigestChanged", "IfNotPresent", "Never"} {
		n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\npolicy = '"+policy+"'\nallowed_sources = ['127.0.0.1:*']\n")
		mark := n.Mark()
		_, err := n.Pull(ref)
		d := n.Decision(mark, ref)
		t.Logf("%s: %s %s", policy, d.Outcome, d.Reason)
		if err == nil || d.Outcome != "Failed" {
			t.Errorf("%s: %+v %v", policy, d, err)
		}
	}
}
