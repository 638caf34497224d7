// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestImportedImageUnderMaxStale holds that an imported image is no fallback where max_stale bounds it.
// It is what `pullwarden test` has to foresee: plugin/ruletest, TestUnknownImageWasNeverChecked.
func TestImportedImageUnderMaxStale(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\npolicy = 'IfDigestChanged'\nmax_stale = '24h'\n")
	ref := nodetest.Named("app:1")
	n.Import(ref, nodetest.Image(1))
	n.Registry.Refuse()
	mark := n.Mark()
	_, err := n.Pull(ref)
	d := n.Decision(mark, ref)
	if err == nil || d.Outcome != "Failed" || d.Reason != "max_stale" {
		t.Errorf("%+v %v", d, err)
	}
}

// TestImportedImageUnderAllowedSources holds that an imported image is not reused where allowed_sources limits
// its sources. It is what `pullwarden test` has to foresee: plugin/ruletest, TestUnknownImageIsFromNoAllowedSource.
func TestImportedImageUnderAllowedSources(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref := nodetest.Named("app:1")
	n.Import(ref, nodetest.Image(1))
	n.Registry.Refuse()
	for policy, reason := range map[string]string{"IfDigestChanged": "unreachable", "IfNotPresent": "unreachable", "Never": "absent"} {
		n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\npolicy = '"+policy+"'\nallowed_sources = ['127.0.0.1:*']\n")
		mark := n.Mark()
		_, err := n.Pull(ref)
		d := n.Decision(mark, ref)
		if err == nil || d.Outcome != "Failed" || d.Reason != reason {
			t.Errorf("%s: %+v %v", policy, d, err)
		}
	}
}
