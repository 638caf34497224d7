// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

const readManifest = `check_with = "Manifest"`

// readAt is an image whose manifest a check has read then, and whose digest another has
// asked for since.
func readAt(read, asked time.Time) *store.Record {
	r := cachedImage(first, asked)
	if !read.IsZero() {
		r.Verified.Read = store.Reading{At: read, By: "registry.test"}
	}
	return r
}

// A rule that wants manifests read trusts no check of the digest alone, neither that it is
// fresh nor that a fallback is not too old; and each of its own.
func TestCheckOfTheDigestCountsForNoManifest(t *testing.T) {
	young, old := now.Add(-time.Minute), now.Add(-time.Hour)
	for name, test := range map[string]struct {
		with        string
		read, asked time.Time
		fresh       bool
		fallback    bool
	}{
		"never read":              {readManifest, time.Time{}, young, false, false},
		"read long ago":           {readManifest, old, young, false, false},
		"read of late":            {readManifest, young, young, true, true},
		"read of late, for Head":  {`check_with = "Head"`, young, young, true, true},
		"never read, for Head":    {`check_with = "Head"`, time.Time{}, young, true, true},
		"asked long ago for Head": {`check_with = "Head"`, old, old, false, false},
	} {
		n := &node{record: readAt(test.read, test.asked), remote: first}
		o, err := n.engine(rule(test.with, `max_age = "10m"`)).Ensure(t.Context(), n.request(nil))
		if err != nil || (o.Kind == Fresh) != test.fresh {
			t.Errorf("%s: %s, %v", name, o.Kind, err)
		}
		n = &node{record: readAt(test.read, test.asked), checkFails: failure.Unreachable}
		o, err = n.engine(rule(test.with, `policy = "IfDigestChanged"`, `max_stale = "10m"`)).Ensure(t.Context(), n.request(nil))
		if (o.Kind == UsedCached) != test.fallback {
			t.Errorf("%s: %s, %v", name, o.Kind, err)
		}
		if never := test.read.IsZero() && test.with == readManifest; never != strings.Contains(fmt.Sprint(err), "no check that counts has read the manifest") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The registry client is told what to read, and the check is marked as one that has read it.
// For whoever has proved nothing the manifest that runs is read in the way of a pull.
func TestManifestIsAskedFor(t *testing.T) {
	inner := digest.FromString("of this platform")
	for name, test := range map[string]struct {
		rules    string
		caller   Caller
		manifest digest.Digest
		want     resolver.Nested
		reads    int // in the way of a pull
	}{
		"an index":                      {rule(readManifest), alice, inner, resolver.Nested{Index: first.Digest, Manifest: inner}, 0},
		"an index, nothing proved":      {rule(readManifest), bob, inner, resolver.Nested{}, 1},
		"an index, whose is the matter": {rule(readManifest, `policy = "IfNotPresent"`), bob, inner, resolver.Nested{}, 1},
		"a manifest":                    {rule(readManifest), alice, "", resolver.Nested{}, 0},
		"a manifest, nothing proved":    {rule(readManifest), bob, "", resolver.Nested{}, 1}, // the check has it
		"by its digest alone":           {rule(), alice, inner, resolver.Nested{}, 0},
		"by its digest, nothing proved": {rule(), bob, inner, resolver.Nested{}, 1},
		"by its digest, a manifest":     {rule(), bob, "", resolver.Nested{}, 1},
	} {
		n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: first, manifest: test.manifest}
		req := n.request(nil)
		req.Caller = test.caller
		o, err := n.engine(test.rules).Ensure(t.Context(), req)
		if err != nil || o.Kind != Unchanged || n.manifestsRead != test.reads || n.pulls != 0 {
			t.Errorf("%s: %s, %v, %d reads, %d pulls", name, o.Kind, err, n.manifestsRead, n.pulls)
		}
		reads := !strings.HasPrefix(name, "by its digest")
		if n.query.ReadManifest != reads || n.query.Nested != test.want || slices.Contains(o.Used, policy.KeyCheckWith) != reads {
			t.Errorf("%s: query %+v, used %v", name, n.query, o.Used)
		}
		want := store.Reading{}
		if reads {
			want = store.Reading{At: now, By: "registry.test"}
		}
		if len(n.verified) == 0 {
			t.Errorf("%s: no mark", name)
		}
		for _, v := range n.verified {
			if v.Read != want {
				t.Errorf("%s: marked as %+v", name, v)
			}
		}
	}
}

// A caller who has proved nothing is not given an image whose manifest the registry refuses
// them, however checks ask.
func TestRefusedManifestIsNobodys(t *testing.T) {
	for _, inner := range []digest.Digest{"", digest.FromString("of this platform")} {
		for _, with := range []string{`check_with = "Head"`, readManifest} {
			n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: first, manifest: inner, quarantined: true}
			req := n.request(nil)
			req.Caller = bob
			o, err := n.engine(rule(`policy = "IfNotPresent"`, with)).Ensure(t.Context(), req)
			if err == nil || o.Kind != Failed || o.Class != failure.Forbidden || n.manifestsRead != 1 {
				t.Errorf("%q, %s: %s (%s), %v, %d reads", inner, with, o.Kind, o.Reason, err, n.manifestsRead)
			}
		}
	}
}

// Where the tag stands for another image, what is refused of the cached one fails nothing: the
// caller has proved the tag, and gets its image, as on a node without any.
func TestRefusedManifestBehindAMovedTag(t *testing.T) {
	for what, test := range map[string]struct {
		quarantined bool
		record      *store.Record
		kind        Kind
	}{
		"refused":            {true, cachedImage(first, now.Add(-time.Hour)), Pulled},
		"refused, imported":  {true, cachedImage(first, time.Time{}), Pulled},
		"given":              {false, cachedImage(first, now.Add(-time.Hour)), Unchanged},
		"given, an imported": {false, cachedImage(first, time.Time{}), Unchanged},
	} {
		n := &node{record: test.record, remote: second, quarantined: test.quarantined}
		req := n.request(nil)
		req.Caller = bob
		o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), req)
		if err != nil || o.Kind != test.kind || n.manifestsRead != 1 {
			t.Errorf("%s: %s (%s), %v, %d reads", what, o.Kind, o.Reason, err, n.manifestsRead)
		}
		if refused := len(n.revoked) > 0; refused != test.quarantined {
			t.Errorf("%s: revoked %v", what, n.revoked)
		}
	}
}

// Nor is it given to them by a pull that finds it on the node: by another tag of the
// repository, or because another request has pulled it meanwhile. Who has proved access is
// asked for nothing more.
func TestRefusedManifestInAPull(t *testing.T) {
	there := cachedImage(first, now.Add(-time.Hour))
	for name, found := range map[string]func(*node){
		"by another tag":   func(n *node) { n.record, n.unrunnable = there, true },
		"pulled meanwhile": func(n *node) { n.onCheck = func() { n.record = there } },
	} {
		for _, inner := range []digest.Digest{"", digest.FromString("of this platform")} {
			for caller, fails := range map[Caller]bool{alice: false, bob: true} {
				n := &node{remote: first, manifest: inner, quarantined: true}
				found(n)
				req := n.request(nil)
				req.Caller = caller
				o, err := n.engine(rule()).Ensure(t.Context(), req)
				if fails && (err == nil || o.Class != failure.Forbidden || slices.Contains(n.proved, bob)) || !fails && (err != nil || n.manifestsRead != 0) {
					t.Errorf("%s, %s: %s (%s), %v, %d reads", name, caller, o.Kind, o.Reason, err, n.manifestsRead)
				}
			}
		}
	}
}

// A pull takes no manifest from the node that the registry refuses: it is asked for unless
// the check or the pull has read it.
func TestPullReadsTheManifest(t *testing.T) {
	inner := digest.FromString("of this platform")
	for name, test := range map[string]struct {
		rules       string
		manifest    digest.Digest
		quarantined bool
		reads       int
		kind        Kind
	}{
		"an index":            {rule(readManifest), inner, false, 1, Pulled},
		"refused":             {rule(readManifest), inner, true, 1, Failed},
		"the check has read":  {rule(readManifest), "", true, 0, Pulled},
		"by its digest alone": {rule(), inner, true, 0, Pulled},
	} {
		n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: second, manifest: test.manifest, quarantined: test.quarantined}
		o, err := n.engine(test.rules).Ensure(t.Context(), n.request(nil))
		if o.Kind != test.kind || n.manifestsRead != test.reads || (err != nil) != (test.kind == Failed) {
			t.Errorf("%s: %s (%s), %v, %d reads", name, o.Kind, o.Reason, err, n.manifestsRead)
		}
		if test.kind == Failed && (o.Class != failure.Forbidden || len(n.revoked) == 0 || n.record.Target.Digest != first.Digest) {
			t.Errorf("%s: %s, revoked %v, has %s", name, o.Class, n.revoked, n.record.Target.Digest)
		}
	}
}

// Beside containerd's own pull of an index the check reads no manifest in it, but for that
// of an index that the node has: containerd may have had it on the node already.
func TestObservedPullReadsNoManifest(t *testing.T) {
	inner := digest.FromString("of this platform")
	for name, test := range map[string]struct {
		before   ocispec.Descriptor
		manifest digest.Digest
		reads    bool
	}{
		"a manifest":       {first, "", true},
		"an index":         {first, inner, false},
		"an index as ever": {second, inner, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{record: cachedImage(test.before, now.Add(-time.Hour)), remote: second, manifest: test.manifest}
			n.ensureObserved(t, n.engine(rule(observing, readManifest)), n.request(nil))
			if got, ok := n.verified[n.record.Name]; !ok || got.Read.At.IsZero() == test.reads {
				t.Errorf("%s: marked as %+v", name, n.verified)
			}
		})
	}
}

// An image that another request has pulled since the check was not read by it: the check
// had read another manifest, and that request perhaps none.
func TestManifestPulledMeanwhileIsRead(t *testing.T) {
	for _, test := range []struct {
		rules string
		reads int
	}{{rule(readManifest), 1}, {rule(), 0}} {
		n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: second, manifest: digest.FromString("of this platform")}
		n.onCheck = func() { n.record = cachedImage(second, now) }
		o, err := n.engine(test.rules).Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != Unchanged || n.manifestsRead != test.reads {
			t.Errorf("%s: %s, %v, %d reads", test.rules, o.Kind, err, n.manifestsRead)
		}
	}
}

// A pull by a check of the digest alone is no pull for a request that wants the manifest
// read: the manifest may have been on the node.
func TestPullsOfOtherChecksAreNotShared(t *testing.T) {
	n := &node{}
	head, _ := n.engine(rule()).begin(t.Context(), n.request(nil))
	read, _ := n.engine(rule(readManifest)).begin(t.Context(), n.request(nil))
	if head.pullKey(first.Digest) == read.pullKey(first.Digest) || head.checkKey() == read.checkKey() {
		t.Error("they share a pull, or a check")
	}
}

// Who waits for a pull that fails on the node itself reads the manifest of an image that
// another request, which did not, has pulled meanwhile.
func TestManifestIsReadAfterASharedPullThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		n.manifest, n.pullErr, n.quarantined = digest.FromString("of this platform"), errTest, true
		n.onPull = func() {
			time.Sleep(time.Second)
			n.mu.Lock()
			defer n.mu.Unlock()
			n.record = cachedImage(second, now)
		}
		n.pullTakes = time.Second
		e := n.engine(rule(tenSeconds, readManifest))
		one := arrive(t, e, n.request(nil))
		time.Sleep(100 * time.Millisecond)
		two := arrive(t, e, n.request(nil))
		if a := <-one; a.outcome.Kind != Failed || a.outcome.Reason != ReasonPull {
			t.Errorf("who began it: %s (%s)", a.outcome.Kind, a.outcome.Reason)
		}
		if a := <-two; a.outcome.Kind != Failed || a.outcome.Class != failure.Forbidden || n.manifestsRead == 0 {
			t.Errorf("who waited: %s (%s), %d manifests read", a.outcome.Kind, a.outcome.Reason, n.manifestsRead)
		}
	})
}
