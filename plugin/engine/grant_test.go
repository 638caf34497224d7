// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// restricted is a cached image for which these have proved access.
func restricted(at time.Time, who ...store.Fingerprint) *store.Record {
	r := cachedImage(first, now.Add(-time.Hour))
	r.Restricted = true
	r.Access = map[store.Fingerprint]store.Proof{}
	for _, f := range who {
		r.Access[f] = store.Proof{At: at, By: "registry.test"}
	}
	return r
}

// mirrored is a cached image for which a mirror gave these proofs, or nobody knows
// who, for by "".
func mirrored(by string, who store.Fingerprint) *store.Record {
	r := restricted(now.Add(-time.Minute))
	r.Access[who] = store.Proof{At: now.Add(-time.Minute), By: by}
	return r
}

// accessRow is what comes of a request while the registry is well, and while it
// cannot be reached.
type accessRow struct {
	what   string
	rule   string
	record *store.Record
	caller store.Fingerprint
	up     Kind
	down   Kind
}

func accessRows() []accessRow {
	recently, unknown := now.Add(-time.Minute), cachedImage(first, time.Time{})
	return []accessRow{
		{"IfNotPresent, own proof", `policy = "IfNotPresent"`, restricted(recently, alice), alice, Present, Present},
		{"IfNotPresent, another's proof", `policy = "IfNotPresent"`, restricted(recently, alice), bob, Unchanged, Failed},
		{"IfNotPresent, nobody's", `policy = "IfNotPresent"`, restricted(recently), bob, Unchanged, Failed},
		{"IfNotPresent, no credentials", `policy = "IfNotPresent"`, restricted(recently, alice), store.Anonymous, Unchanged, Failed},
		{"IfNotPresent, public", `policy = "IfNotPresent"`, restricted(recently, store.Anonymous), bob, Present, Present},
		{"IfNotPresent, credentials that cannot be told", `policy = "IfNotPresent"`, restricted(recently, alice), "", Unchanged, Failed},
		{"IfNotPresent, no records", `policy = "IfNotPresent"`, unknown, bob, Unchanged, Present},
		{"IfNotPresent, no records, Strict", "policy = \"IfNotPresent\"\naccess = \"Strict\"", unknown, bob, Unchanged, Failed},
		{"IfNotPresent, no records, any", "policy = \"IfNotPresent\"\naccess = \"Any\"", unknown, bob, Present, Present},
		{"IfNotPresent, any", "policy = \"IfNotPresent\"\naccess = \"Any\"", restricted(recently, alice), bob, Present, Present},
		{"IfNotPresent, proof too old", "policy = \"IfNotPresent\"\naccess_ttl = \"30s\"", restricted(recently, alice), alice, Unchanged, Failed},
		{"IfNotPresent, proof young enough", "policy = \"IfNotPresent\"\naccess_ttl = \"1m\"", restricted(recently, alice), alice, Present, Present},
		{"IfNotPresent, proof from the future", "policy = \"IfNotPresent\"\naccess_ttl = \"1m\"", restricted(now.Add(time.Hour), alice), alice, Unchanged, Failed},
		{"Origin, the registry's proof", "policy = \"IfNotPresent\"\nresolve_from = \"Origin\"", restricted(recently, alice), alice, Present, Present},
		{"Origin, a mirror's proof", "policy = \"IfNotPresent\"\nresolve_from = \"Origin\"", mirrored("mirror.test", alice), alice, Unchanged, Failed},
		{"Origin, a mirror's proof for all", "policy = \"IfNotPresent\"\nresolve_from = \"Origin\"", mirrored("mirror.test", store.Anonymous), alice, Unchanged, Failed},
		{"Origin, nobody knows whose proof", "policy = \"IfNotPresent\"\nresolve_from = \"Origin\"", mirrored("", alice), alice, Unchanged, Failed},
		{"Mirrors, a mirror's proof", `policy = "IfNotPresent"`, mirrored("mirror.test", alice), alice, Present, Present},
		{"Never, own proof", `policy = "Never"`, restricted(recently, alice), alice, Present, Present},
		{"Never, another's proof", `policy = "Never"`, restricted(recently, alice), bob, Failed, Failed},
		{"Never, own proof, Strict", "policy = \"Never\"\naccess = \"Strict\"", restricted(recently, alice), alice, Present, Present},
		{"Never, no records", `policy = "Never"`, unknown, bob, Present, Present},
		{"Never, no records, Strict", "policy = \"Never\"\naccess = \"Strict\"", unknown, bob, Failed, Failed},
		{"max_age, no records", `max_age = "2h"`, unknown, bob, Unchanged, Failed},
		{"max_age, own proof", `max_age = "2h"`, restricted(recently, alice), alice, Fresh, Fresh},
		{"max_age, another's proof", `max_age = "2h"`, restricted(recently, alice), bob, Unchanged, Failed},
		{"fallback, own proof", `policy = "IfDigestChanged"`, restricted(recently, alice), alice, Unchanged, UsedCached},
		{"fallback, another's proof", `policy = "IfDigestChanged"`, restricted(recently, alice), bob, Unchanged, Failed},
		{"fallback, no records", `policy = "IfDigestChanged"`, unknown, bob, Unchanged, UsedCached},
		{"fallback, no records, Strict", "policy = \"IfDigestChanged\"\naccess = \"Strict\"", unknown, bob, Unchanged, Failed},
		{"fallback, any", "policy = \"IfDigestChanged\"\naccess = \"Any\"", restricted(recently, alice), bob, Unchanged, UsedCached},
	}
}

// Some callers may reuse a cached image, others have to ask.
func TestAccess(t *testing.T) {
	for _, tc := range accessRows() {
		for up, want := range map[bool]Kind{true: tc.up, false: tc.down} {
			t.Run(fmt.Sprintf("%s/up=%v", tc.what, up), func(t *testing.T) {
				record := *tc.record
				n := &node{record: &record, remote: first, anonymous: tc.caller == store.Anonymous}
				if !up {
					n.checkFails = failure.Unreachable
				}
				req := n.request(nil)
				req.Caller = tc.caller
				o, err := n.engine(rule(tc.rule)).Ensure(t.Context(), req)
				if o.Kind != want || (err != nil) != (want == Failed) {
					t.Fatalf("got %s (%s, %s), %v; want %s", o.Kind, o.Reason, o.Grant, err, want)
				}
				if n.pulls != 0 {
					t.Error("what is there was downloaded")
				}
				asked := want == Unchanged && o.Grant != GrantAny // who may have it anyway proves nothing by its digest
				if got := slices.Contains(n.proved, tc.caller); got != (asked && tc.caller != "") {
					t.Errorf("proved: %v", n.proved)
				}
				if want == Failed && len(n.proved)+len(n.stale)+len(n.used) != 0 {
					t.Errorf("a failure left marks: %v %v %v", n.proved, n.stale, n.used)
				}
			})
		}
	}
}

// A caller proves that it may have the image that is cached, whatever the tag
// has become, unless the registry has forgotten it.
func TestProve(t *testing.T) {
	canonical := repository + "@" + first.Digest.String()
	for _, tc := range []struct {
		what      string
		remote    ocispec.Descriptor
		forgotten bool
		result    Kind
		got       ocispec.Descriptor
		asked     []string
		verified  []string
	}{
		{"the tag is the same", first, false, Unchanged, first, []string{name}, []string{name, canonical}},
		{"the tag has moved", second, false, Unchanged, first, []string{name, canonical}, []string{canonical}},
		{"the digest is forgotten", second, true, Pulled, second, []string{name, canonical}, nil},
	} {
		t.Run(tc.what, func(t *testing.T) {
			n := &node{record: restricted(now, alice), remote: tc.remote, forgotten: tc.forgotten}
			req := n.request(nil)
			req.Caller = bob
			o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), req)
			if err != nil || o.Kind != tc.result || o.ImageID != imageID(tc.got).String() || tc.result == Unchanged && o.Reason != ReasonProved {
				t.Errorf("got %s (%s), %v", o.Kind, o.Reason, err)
			}
			if !slices.Equal(n.references, tc.asked) {
				t.Errorf("asked for %v", n.references)
			}
			if got := slices.Sorted(maps.Keys(n.verified)); !slices.Equal(got, tc.verified) {
				t.Errorf("verified %v", got)
			}
		})
	}
}

// A refusal takes the caller's proof away, and no directive turns it into a
// way in for somebody whose proof it was.
func TestRefusalRevokes(t *testing.T) {
	for _, class := range failure.All() {
		refused := class == failure.Unauthorized || class == failure.Forbidden
		n := &node{record: restricted(now, alice, bob), checkFails: class}
		rules := rule(`policy = "IfDigestChanged"`, "[rule.on]", fmt.Sprintf("%s = \"UseCached\"", class))
		o, err := n.engine(rules).Ensure(t.Context(), n.request(nil))
		if refused != slices.Equal(n.revoked, []store.Fingerprint{alice}) || !refused && len(n.revoked) != 0 {
			t.Errorf("%s: revoked %v", class, n.revoked)
		}
		if want := map[bool]Kind{true: Failed, false: UsedCached}[refused]; o.Kind != want {
			t.Errorf("%s: got %s, %v; want %s", class, o.Kind, err, want)
		}
	}
	// Where the caller needs no proof of its own, there is none to lose. Nobody
	// knows whose an imported image is: a refusal says that it is not this caller's.
	for what, test := range map[string]struct {
		rule   string
		record *store.Record
		want   Kind
	}{
		"access Any": {`access = "Any"`, restricted(now, alice), UsedCached},
		"public":     {"", restricted(now, alice, store.Anonymous), UsedCached},
		"imported":   {"", cachedImage(first, time.Time{}), Failed},
	} {
		n := &node{record: test.record, checkFails: failure.Unauthorized}
		rules := rule(`policy = "IfDigestChanged"`, test.rule, "[rule.on]", `unauthorized = "UseCached"`)
		if o, err := n.engine(rules).Ensure(t.Context(), n.request(nil)); o.Kind != test.want {
			t.Errorf("%s: got %s, %v", what, o.Kind, err)
		}
	}
	n := &node{record: restricted(now, alice), pullFails: failure.Forbidden, remote: second}
	if _, err := n.engine("# none").Ensure(t.Context(), n.request(nil)); err == nil || len(n.revoked) != 1 {
		t.Errorf("a refused pull: %v, revoked %v", err, n.revoked)
	}
}

// A proof that is taken away while the registry keeps its silence is gone.
func TestRefusalMeanwhile(t *testing.T) {
	n := &node{record: restricted(now, alice, bob), checkFails: failure.Unreachable}
	n.onCheck = func() { _ = n.Revoke(t.Context(), repository, []store.Fingerprint{alice}) }
	if o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil)); o.Kind != Failed || o.Grant != GrantNone {
		t.Errorf("got %s (access %s), %v", o.Kind, o.Grant, err)
	}
}

// The error is the same whether there is an image that the caller may not
// have, or none at all.
func TestErrorsDoNotTellWhatIsThere(t *testing.T) {
	for _, mode := range []policy.PullPolicy{policy.Always, policy.IfDigestChanged, policy.IfNotPresent, policy.Never} {
		for _, class := range failure.All() {
			var texts []string
			for _, record := range []*store.Record{nil, restricted(now, alice)} {
				n := &node{record: record, checkFails: class}
				req := n.request(nil)
				req.Caller = bob
				_, err := n.engine(rule(fmt.Sprintf("policy = %q\nmax_stale = \"1s\"", mode))).Ensure(t.Context(), req)
				if err == nil {
					t.Fatalf("%s, %s: no error", mode, class)
				}
				texts = append(texts, err.Error())
			}
			if texts[0] != texts[1] {
				t.Errorf("%s, %s:\nabsent:  %s\nprivate: %s", mode, class, texts[0], texts[1])
			}
		}
	}
}

// What was all served without credentials, with the manifest, is everybody's; an answer alone
// is not, and the caller's own proof is what it always is.
func TestAnonymousAnswer(t *testing.T) {
	for what, tc := range map[string]struct {
		node *node
		want []store.Fingerprint
	}{
		"a manifest that was read": {&node{record: restricted(now), remote: first}, fingerprints(alice, store.Anonymous)},
		"a digest alone":           {&node{record: restricted(now, alice), remote: first}, fingerprints(alice)},
		"a part was guarded":       {&node{record: restricted(now), remote: first, guarded: true}, fingerprints(alice)},
		"another manifest in it":   {&node{record: restricted(now), remote: first, manifest: second.Digest}, fingerprints(alice, store.Anonymous)},
	} {
		tc.node.anonymous = true
		if _, err := tc.node.engine("# none").Ensure(t.Context(), tc.node.request(nil)); err != nil {
			t.Fatal(err)
		}
		for _, f := range fingerprints(alice, store.Anonymous) {
			if slices.Contains(tc.node.proved, f) != slices.Contains(tc.want, f) {
				t.Errorf("%s: %v have proved access, want %v", what, tc.node.proved, tc.want)
			}
		}
	}
}

// A pull is everybody's only where nothing of it took credentials.
func TestAnonymousPull(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		n := &node{remote: first, anonymous: true, guarded: guarded}
		if _, err := n.engine("# none").Ensure(t.Context(), n.request(nil)); err != nil {
			t.Fatal(err)
		}
		_, all := n.record.Access[store.Anonymous]
		if _, own := n.record.Access[alice]; !own || all == guarded {
			t.Errorf("guarded is %v, and %v may have it", guarded, n.record.Access)
		}
	}
}

// A registry that answers with the digest of what only others have gives
// nothing, unless the image came by the same repository before.
func TestImpostorIsNotAdmitted(t *testing.T) {
	n := &node{remote: second, imposes: true}
	if o, err := n.engine("# none").Ensure(t.Context(), n.request(nil)); o.Kind != Failed || n.record != nil {
		t.Errorf("got %s, %v, and the record %v", o.Kind, err, n.record)
	}
	n = &node{remote: second, imposes: true, record: cachedImage(second, time.Time{}), unrunnable: true}
	if o, err := n.engine("# none").Ensure(t.Context(), n.request(nil)); o.Kind != Pulled {
		t.Errorf("known before: got %s, %v", o.Kind, err)
	}
}

func TestPullIsAProof(t *testing.T) {
	n := &node{remote: first}
	if _, err := n.engine("# none").Ensure(t.Context(), n.request(nil)); err != nil {
		t.Fatal(err)
	}
	if !n.record.Access[alice].At.Equal(now) || len(n.record.Access) != 1 || !n.record.Restricted {
		t.Errorf("the record says %+v", n.record.State)
	}
}
