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
	"github.com/pullwarden/pullwarden/store"
)

// A registry that answers, and does not send the manifest of an image of which nothing is known,
// is as unreachable as one that does not answer: where the image would do then, its request ends
// in the time for the check. Where the tag has moved, that holds for every image: who has proved
// the tag gets it. Elsewhere the request ends when a pull would, as where the image is not there.
func TestManifestThatDoesNotComeInTime(t *testing.T) {
	proved := func() *store.Record { return cachedImage(first, now.Add(-time.Hour)) }
	open := func() *store.Record { return cachedImage(first, time.Time{}) }
	for what, test := range map[string]struct {
		record *store.Record
		policy string
		remote ocispec.Descriptor
		want   Kind
		takes  time.Duration
	}{
		"open":                    {open(), "IfDigestChanged", first, UsedCached, 2 * time.Second},
		"open, not to be changed": {open(), "IfNotPresent", first, Present, 2 * time.Second},
		"open, moved":             {open(), "IfNotPresent", second, Present, 2 * time.Second},
		"open, no fallback":       {open(), "Always", first, Failed, time.Hour},
		"another's":               {proved(), "IfDigestChanged", first, Failed, time.Hour},
		"another's, moved":        {proved(), "IfNotPresent", second, Pulled, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{record: test.record, remote: test.remote, stalls: true}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			req := n.request(nil)
			req.Caller = bob
			began := time.Now()
			o, err := n.engine(rule(`verify_timeout = "2s"`, `policy = "`+test.policy+`"`)).Ensure(ctx, req)
			if took := time.Since(began); o.Kind != test.want || took.Truncate(100*time.Millisecond) != test.takes {
				t.Errorf("%s: %s (%s), %v, after %s", what, o.Kind, o.Reason, err, took)
			}
			if o.Kind == UsedCached && o.Class != failure.Unreachable {
				t.Errorf("%s: %s", what, o.Class)
			}
		})
	}
}

// Where an image goes while its manifest is read for a caller who has proved nothing, be it the
// tag's, or the cached one under a tag that has moved, the request begins anew.
func TestGoneWhileItIsReadForTheUnproved(t *testing.T) {
	for _, remote := range []ocispec.Descriptor{first, second} {
		n := &node{record: cachedImage(first, now), remote: remote}
		n.onRead = func() error {
			n.onRead = nil
			n.remove()
			return errTest
		}
		req := n.request(nil)
		req.Caller = bob
		o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), req)
		if err != nil || o.Kind != Pulled || n.record == nil || n.record.Target.Digest != remote.Digest {
			t.Errorf("%s: %s (%s), %v, the node has %v", remote.Digest, o.Kind, o.Reason, err, n.record)
		}
	}
}
