// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// want waits until a series has a value.
func want(t *testing.T, address, name string, labels map[string]string, value float64) {
	t.Helper()
	nodetest.Eventually(t, name, func() bool {
		got, ok := nodetest.Scrape(t, address).Value(name, labels)
		return ok && got == value
	})
}

// TestRules follows the rules in force and their matches over reloads.
func TestRules(t *testing.T) {
	t.Parallel()
	const rules, matches = "pullwarden_rules", "pullwarden_rule_matches_total"
	named := func(rule string) map[string]string { return map[string]string{"rule": rule} }
	address := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.MetricsAt(address))
	n.Push("app:1", nodetest.Image(1))
	n.Push("other:1", nodetest.Image(2))
	n.MustPull(nodetest.Named("app:1"))
	want(t, address, rules, nil, 0)
	want(t, address, matches, named("none"), 1)

	n.WriteRules("10.toml", "[[rule]]\nimages = [\"registry.test/never\"]\n[[rule]]\nimages = [\"registry.test/app\"]\n")
	want(t, address, rules, nil, 2)
	n.MustPull(nodetest.Named("app:1"))
	n.MustPull(nodetest.Named("app:1"))
	n.MustPull(nodetest.Named("other:1"))
	want(t, address, matches, named("10.toml#1"), 0)
	want(t, address, matches, named("10.toml#2"), 2)
	want(t, address, matches, named("none"), 2)

	n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\n")
	want(t, address, rules, nil, 1)
	n.MustPull(nodetest.Named("app:1"))
	want(t, address, matches, named("10.toml#1"), 1)
	want(t, address, matches, named("none"), 2)
	if v, ok := nodetest.Scrape(t, address).Value(matches, named("10.toml#2")); ok {
		t.Errorf("a rule that is gone has %v matches", v)
	}
	n.WriteRules("10.toml", "[[rule]]\nimages = \"**\"\n")
	want(t, address, "pullwarden_rules_last_reload_successful", nil, 0)
	want(t, address, rules, nil, 1)
}

// TestImages counts an image that a client of the transfer service brought, without a
// check, until CRI has pulled it.
func TestImages(t *testing.T) {
	t.Parallel()
	const open, unchecked = "pullwarden_open_images", "pullwarden_unchecked_images"
	address := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.MetricsAt(address))
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	want(t, address, open, nil, 0)
	want(t, address, unchecked, nil, 0)
	n.MustPull(ref)
	want(t, address, open, nil, 0)
	want(t, address, unchecked, nil, 0)

	image, err := n.Client.ImageService().Get(t.Context(), ref)
	n.Must(err)
	image.Name, image.Labels = "registry.test/imported:1", nil
	_, err = n.Client.ImageService().Create(t.Context(), image)
	n.Must(err)
	want(t, address, open, nil, 1)
	want(t, address, unchecked, nil, 1)
	n.Must(n.Client.ImageService().Delete(t.Context(), image.Name))
	want(t, address, open, nil, 0)
	want(t, address, unchecked, nil, 0)
}

// TestQuotaAndWarnings has a registry say what is left, and warn.
func TestQuotaAndWarnings(t *testing.T) {
	t.Parallel()
	address := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.MetricsAt(address))
	host := map[string]string{"host": n.Registry.Host()}
	n.Push("app:1", nodetest.Image(1))
	mark := n.Mark()
	n.MustPull(nodetest.Named("app:1"))
	if _, ok := nodetest.Scrape(t, address).Value("pullwarden_registry_ratelimit_limit", host); ok {
		t.Error("there is a quota that the registry has not named")
	}
	want(t, address, "pullwarden_registry_warnings_total", host, 0)

	speaking(n, "0", `299 - "v1 ends; see https://user:password@registry.test/news?token=1"`)
	n.MustPull(nodetest.Named("app:1"))
	want(t, address, "pullwarden_registry_ratelimit_limit", host, 100)
	want(t, address, "pullwarden_registry_ratelimit_remaining", host, 0)
	want(t, address, "pullwarden_registry_warnings_total", host, 1)
	n.MustPull(nodetest.Named("app:1"))
	want(t, address, "pullwarden_registry_warnings_total", host, 2)
	lines := n.LogLines(mark, "the registry warns", `"v1 ends; see https://registry.test/news"`, n.Registry.Host())
	nodetest.Want(t, "lines of the log about the warning", len(lines), 1)
}
