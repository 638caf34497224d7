// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A tag is moved, put back, and moved again within one download: the pull in the background, which the last
// pod waits for, comes to its end.
func TestRolledForwardAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, time.Now().Add(-2*time.Hour)), pullTakes: 10 * time.Minute}
		e := n.engine(rule(`policy = "IfDigestChanged"`, `pull_deadline = "1s"`))
		e.Now = time.Now
		for _, remote := range []ocispec.Descriptor{second, first, second} {
			n.push(remote)
			<-arrive(t, e, n.request(nil))
			time.Sleep(time.Minute)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if n.record.Target.Digest != second.Digest {
			t.Errorf("the image that the registry has, and the last pod waited for, is not there: %+v", n.told(true))
		}
	})
}

// The registry has answered a request, which begins anew since a later answer was acted upon. It is silent then,
// and a mirror's proof does not count.
func TestMirrorsProofInARequestThatBeginsAnew(t *testing.T) {
	n := &node{remote: second, record: provedBy("mirror.test")}
	n.record.Target, n.record.Verified.Digest = first, first.Digest
	e := n.engine(rule(`policy = "IfDigestChanged"`, inNeed))
	n.onPull = func() {
		n.onPull = nil
		setBack(e)
		n.checkFails = failure.Unreachable
	}
	if o, err := e.Ensure(t.Context(), n.request(nil)); err == nil {
		t.Errorf("%s (%s) after %d checks", o.Kind, o.Reason, n.checks)
	}
}
