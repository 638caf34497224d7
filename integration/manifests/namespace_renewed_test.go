// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// docs/access.md: a check of the digest alone gives a proof "where the same host has given a proof before, to the caller or to
// everybody ... and none at all where the caller may have the image by the proof of its namespace alone".
func TestProofOfANamespaceIsNotRenewedByOthersHead(t *testing.T) {
	n := open(t)
	n.WriteRules("10.toml", byNamespace+"access_ttl = \"1h\"\n")
	n.Push("image:1", resolvertest.Image(77900, 2, 500))
	defer forAlice(n, func(r *http.Request) bool { return r.Method != http.MethodHead && r.URL.Path != "/v2/" })()
	ref, eve, team := nodetest.Named("image:1"), node.Credentials("eve", "made-up-0123456789"), node.Pod("team-a", "pod")
	n.MustPull(ref, alice(), team)
	canonical := nodetest.Named("image@" + n.Target(ref).String())
	then := time.Now().Add(-50 * time.Minute).UTC().Format(time.RFC3339)
	time.Sleep(time.Second)
	for _, name := range []string{ref, canonical} {
		for label, value := range n.Labels(name) {
			if strings.HasPrefix(label, "access.") {
				_, by, _ := strings.Cut(value, " ")
				n.SetLabels(name, map[string]string{label: then + " " + by})
			}
		}
	}
	n.MustPull(ref, eve, team, node.Hint("policy", "Always")) // HEAD is open to all, the manifest is alice's
	time.Sleep(time.Second)
	for _, name := range []string{ref, canonical} {
		for label, value := range n.Labels(name) {
			if strings.HasPrefix(label, "access.") && !strings.HasPrefix(value, then) {
				t.Errorf("%s: %s is %s by a check of the digest alone for made-up credentials, and was %s", name, label, value, then)
			}
		}
	}
}
