// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

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
		n, asked := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: first, pullErr: errTest}, 0
		e := n.engine("# none")
		e.VerifyImage = func(context.Context, string, ocispec.Descriptor) error {
			asked++
			if test.refused {
				return errTest
			}
			return nil
		}
		req := n.request(nil)
		req.Caller = test.caller
		o, err := e.Ensure(t.Context(), req)
		if o.Reason != test.reason || (err != nil) != test.refused || asked != test.asked || n.pulls != test.pulls || test.refused && n.manifestsRead > 0 {
			t.Errorf("%s: %s (%s), %v, verifiers asked %d times, %d pulls, %d reads", what, o.Kind, o.Reason, err, asked, n.pulls, n.manifestsRead)
		}
	}
}
