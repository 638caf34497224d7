// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// Start says what Ensure then does without a registry, for each policy, image and
// directive. Nothing is changed by it, and nobody asked.
func TestStartIsEnsure(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		for _, more := range []string{"", `max_age = "2h"`, `max_age = "1m"`, `access = "Any"`, `access = "Strict"`, "access = \"Strict\"\nmax_age = \"2h\"", `allowed_sources = ["registry.test"]`} {
			for state, set := range localStates {
				t.Run(policy+"/"+more+"/"+state, func(t *testing.T) {
					n := &node{remote: second}
					set(n)
					compareStart(t, n, n.engine(rule(fmt.Sprintf("policy = %q", policy), more, `govern = "Starts"`)), strings.Contains(more, "Strict") || policy == "Always" || policy == "IfDigestChanged")
				})
			}
		}
	}
}

func compareStart(t *testing.T, n *node, e *Engine, governed bool) {
	t.Helper()
	for _, caller := range []Caller{store.Anonymous, alice} {
		record := n.record
		n.used, n.checks = nil, 0
		req := n.request(nil)
		req.Caller = caller
		before := n.effects()
		s := e.Start(t.Context(), req, true)
		used := n.used
		n.used = nil
		if after := n.effects(); after != before {
			t.Errorf("it changes\n%s to\n%s", before, after)
		}
		if n.checks != 0 || s.Governed != governed {
			t.Errorf("governed: %v, %d checks", s.Governed, n.checks)
		}
		packed := n.packed
		o, _ := e.Ensure(t.Context(), req)
		reused := governed && n.checks == 0 && o.Kind != Failed && !packed
		if s.Reuse != reused {
			t.Errorf("%s starts: %v; the outcome is %s (%s)", caller, s.Reuse, o.Kind, o.Reason)
		}
		if reused && s.ImageID != o.ImageID || !reused && s.ImageID != "" {
			t.Errorf("%s starts from the image %q; that of the outcome is %q", caller, s.ImageID, o.ImageID)
		}
		if reused && !slices.Equal(used, n.used) {
			t.Errorf("proofs that were used: %v, want %v", used, n.used)
		}
		n.record, n.packed, n.pulls, n.completed, n.verifiedContent, n.proved, n.revoked = record, packed, 0, nil, nil, nil, nil
		clear(n.stale)
		clear(n.verified)
		n.outcomes = nil
	}
}

// An image that has no snapshot yet is completed by a pull. A pod that does not pull needs
// none, unless the layers of another snapshotter have to come from allowed hosts.
func TestStartOfAnIncompleteImage(t *testing.T) {
	for more, want := range map[string]bool{"": true, "allowed_sources = [\"registry.test\"]": false} {
		n := &node{remote: second, record: cachedImage(first, now.Add(-time.Hour)), packed: true}
		n.record.PullSource = name
		e := n.engine(rule(`access = "Strict"`, `policy = "IfNotPresent"`, `govern = "Starts"`, more))
		if pulls, does := e.Start(t.Context(), n.request(nil), true).Reuse, e.Start(t.Context(), n.request(nil), false).Reuse; pulls || does != want {
			t.Errorf("%s: it starts: %v, without a pull: %v", more, pulls, does)
		}
	}
}

// A pod that does not pull gets what the policy Never would give it, a hint that is wrong
// stops a start, and so does a verifier.
func TestStartThatDoesNotPull(t *testing.T) {
	const strict = "policy = \"IfDigestChanged\"\naccess = \"Strict\"\ngovern = \"Starts\""
	for caller, want := range map[Caller]bool{store.Anonymous: false, alice: true} {
		n := &node{remote: second, record: cachedImage(first, now.Add(-time.Hour))}
		e := n.engine(rule(strict))
		req := n.request(nil)
		req.Caller = caller
		if s := e.Start(t.Context(), req, false); s.Reuse != want || !s.Governed {
			t.Errorf("%s: %+v", caller, s)
		}
		req.Annotations = map[string]string{"pullwarden.io/max-age": "soon"}
		if s := e.Start(t.Context(), req, false); s.Reuse || !s.Governed {
			t.Errorf("%s with a bad hint: %+v", caller, s)
		}
		req.Annotations = nil
		e.VerifyImage = func(context.Context, string, ocispec.Descriptor) error { return errors.New("refused") }
		if s := e.Start(t.Context(), req, false); s.Reuse {
			t.Errorf("%s with a verifier: %+v", caller, s)
		}
	}
}
