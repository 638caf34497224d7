// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// countVerifiers has image verifiers that refuse all images or none, and counts how often they are
// asked.
func (e *Engine) countVerifiers(refuse bool) (asked *int) {
	asked = new(int)
	e.VerifyImage = func(context.Context, string, ocispec.Descriptor) error {
		*asked++
		if refuse {
			return errTest
		}
		return nil
	}
	return asked
}

// An image that the verifiers of the node refuse is pulled for who has proved nothing, before its
// manifest is read: containerd asks them then, and fails as where the image is absent. One to
// which they agree they are asked about once.
func TestRefusedByVerifiersIsAbsentForWhoHasProvedNothing(t *testing.T) {
	for what, test := range map[string]struct {
		caller  Caller
		refused bool
		reason  Reason
		asked   int
		pulls   int
	}{
		"proved, agreed":    {alice, false, ReasonSame, 1, 0},
		"proved, refused":   {alice, true, ReasonVerifier, 1, 0},
		"unproved, agreed":  {bob, false, ReasonSame, 1, 0},
		"unproved, refused": {bob, true, ReasonPull, 2, 1}, // when asked for, and when the turn of the pull has come
	} {
		n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: first, pullErr: errTest}
		e := n.engine("# none")
		asked := e.countVerifiers(test.refused)
		req := n.request(nil)
		req.Caller = test.caller
		o, err := e.Ensure(t.Context(), req)
		if o.Reason != test.reason || (err != nil) != test.refused || *asked != test.asked || n.pulls != test.pulls || test.refused && n.manifestsRead > 0 {
			t.Errorf("%s: %s (%s), %v, verifiers asked %d times, %d pulls, %d reads", what, o.Kind, o.Reason, err, *asked, n.pulls, n.manifestsRead)
		}
	}
}

// Where the verifiers of the node refuse the cached image, Explain and Observe foresee the end that
// Ensure comes to: for who has proved nothing the pull of what the tag stands for, which they refuse
// where that is the same image.
func TestRefusedByVerifiersIsForeseen(t *testing.T) {
	for what, test := range map[string]struct {
		rules []string
		set   func(*node)
		want  Reason
	}{
		"moved":             {[]string{`policy = "IfNotPresent"`}, func(n *node) { n.remote = second }, ReasonChanged},
		"moved, followed":   {nil, func(n *node) { n.remote = second }, ReasonChanged},
		"same":              {nil, func(*node) {}, ReasonPull},
		"same, present":     {[]string{`policy = "IfNotPresent"`}, func(*node) {}, ReasonPull},
		"same, by a mirror": {[]string{`resolve_from = "OriginThenMirrors"`}, func(n *node) { n.inNeed = true }, ReasonPull},
		"foreign":           {[]string{`allowed_sources = ["registry.test"]`}, func(n *node) { n.record.PullSource = "elsewhere.test/app:1" }, ReasonPull},
		"anybody's":         {[]string{`access = "Any"`}, func(*node) {}, ReasonVerifier},
		"open":              {nil, func(n *node) { n.record = cachedImage(first, time.Time{}) }, ReasonPull},
		"open, and Never":   {[]string{`policy = "Never"`}, func(n *node) { n.record = cachedImage(first, time.Time{}) }, ReasonVerifier},
		"open, and nobody can say": {[]string{`policy = "IfNotPresent"`}, func(n *node) {
			n.record, n.checkFails = cachedImage(first, time.Time{}), failure.Unreachable
		}, ReasonVerifier},
		"open, and forgotten": {[]string{`policy = "IfNotPresent"`}, func(n *node) {
			n.record, n.remote, n.forgotten = cachedImage(first, time.Time{}), second, true
		}, ReasonVerifier},
		"foreign, and proved": {[]string{`allowed_sources = ["registry.test"]`}, func(n *node) {
			n.record.PullSource = "elsewhere.test/app:1"
			n.record.Access[bob] = n.record.Access[alice]
		}, ReasonVerifier},
	} {
		prepare := func(rules ...string) (*node, *Engine, Request) {
			n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: first}
			test.set(n)
			e := n.engine(rule(append(rules, test.rules...)...))
			e.VerifyImage = func(_ context.Context, _ string, target ocispec.Descriptor) error {
				if target.Digest == first.Digest {
					return errTest
				}
				return nil
			}
			if test.want == ReasonPull {
				n.pullErr, n.stockErr = errTest, errTest // containerd asks the verifiers
			}
			req := n.request(nil)
			req.Caller = bob
			return n, e, req
		}
		t.Run(what+"/explained", func(t *testing.T) {
			n, e, req := prepare()
			compareExplained(t, n, e, req)
			if o := n.last(t); o.Reason != test.want {
				t.Errorf("%s (%s), want %s", o.Kind, o.Reason, test.want)
			}
		})
		t.Run(what+"/observed", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, e, req := prepare(observing)
				if o := n.ensureObserved(t, e, req); o.Reason != test.want {
					t.Errorf("%s (%s), want %s", o.Kind, o.Reason, test.want)
				}
			})
		})
	}
}

// An image from a host that is not allowed is no secret for who has proved access: verifiers that
// refuse it end the request as they do for other images, before a byte is compared. Others pull.
func TestRefusedByVerifiersIsToldOfForeignImages(t *testing.T) {
	for what, test := range map[string]struct {
		caller          Caller
		refused         bool
		reason          Reason
		pulls, compared int
	}{
		"proved, agreed":    {alice, false, ReasonSource, 0, 1},
		"proved, refused":   {alice, true, ReasonVerifier, 0, 0},
		"unproved, agreed":  {bob, false, ReasonSource, 0, 1},
		"unproved, refused": {bob, true, ReasonPull, 1, 0},
	} {
		n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: first, pullErr: errTest}
		n.record.PullSource = "mirror.test/app:1"
		e := n.engine(rule(`allowed_sources = ["registry.test"]`))
		asked := e.countVerifiers(test.refused)
		req := n.request(nil)
		req.Caller = test.caller
		o, err := e.Ensure(t.Context(), req)
		if o.Reason != test.reason || (err != nil) != test.refused || o.Grant != "" || *asked != 1 || n.pulls != test.pulls || len(n.verifiedContent) != test.compared {
			t.Errorf("%s: %s (%s), %v, verifiers asked %d times, %d pulls, content compared %v", what, o.Kind, o.Reason, err, *asked, n.pulls, n.verifiedContent)
		}
	}
}

// A proof of an image from a host that is not allowed makes nothing reusable: no policy, no fallback
// and no age uses it as it is.
func TestProofOfAForeignImageReusesNothing(t *testing.T) {
	for _, p := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		for _, class := range append(failure.All(), failure.None) {
			n := &node{record: cachedImage(first, now), remote: second, checkFails: class}
			n.record.PullSource = "mirror.test/app:1"
			o, _ := n.engine(rule(`policy = "`+p+`"`, `max_age = "2h"`, `allowed_sources = ["registry.test"]`)).Ensure(t.Context(), n.request(nil))
			if o.Kind != Failed && o.Kind != Pulled || len(n.used) > 0 {
				t.Errorf("%s, %q: %s (%s), used %v", p, class, o.Kind, o.Reason, n.used)
			}
		}
	}
}
