// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/store"
)

// Of proofs that a host may have given to any secret the store is told so. A pull that was served
// some of the image for credentials has shown these; one that was served nothing has not.
func TestAnswersThatAnySecretGets(t *testing.T) {
	for what, tc := range map[string]struct {
		host *node
		want bool
	}{
		"takes credentials":        {&node{}, false},
		"asks for none":            {&node{anonymous: true}, true},
		"is shown the node's, too": {&node{byNode: true}, true},
	} {
		n := tc.host
		n.record, n.remote = restricted(now, alice), first
		if _, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got, ok := n.verified[name]; !ok || got.Unshown != tc.want {
			t.Errorf("a host that %s: %v, %+v", what, ok, got)
		}
	}
	e := new(node).engine("# none")
	for shown, want := range map[bool]bool{true: false, false: true} {
		a := answer{
			verified: store.Verified{Unshown: true}, runs: first.Digest, shown: func() bool { return shown },
			proves: func(store.Fingerprint, digest.Digest, bool) bool { return false },
		}
		if got := e.pulledState(a, store.State{}).Unshown; got != want {
			t.Errorf("a pull that has shown credentials, %v: %v", shown, got)
		}
	}
	a := answer{shown: func() bool { return false }}
	if e.pulledState(a, store.State{}).Unshown {
		t.Error("a pull after a check that has shown credentials counts as one that has not")
	}
}

// The manifest that a check has read for the caller's own credentials counts, whoever got the digest: but not where the node
// was let in, too.
func TestChecksWhoseManifestWasShownCredentials(t *testing.T) {
	for what, tc := range map[string]struct{ shown, nodeShown, want bool }{
		"no credentials":              {want: true},
		"the caller's":                {shown: true},
		"the caller's and the node's": {shown: true, nodeShown: true, want: true},
	} {
		n := &node{record: restricted(now, alice)}
		a := answer{
			verified: store.Verified{Digest: first.Digest, At: now, Unshown: true},
			shown:    func() bool { return tc.shown }, nodeShown: func() bool { return tc.nodeShown },
		}
		n.engine("# none").markConfirmed(t.Context(), a, name)
		if got, ok := n.verified[name]; !ok || got.Unshown != tc.want {
			t.Errorf("a host that was shown %s: %v, %+v", what, ok, got)
		}
	}
}
