// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// A pod that was told to pull, since it may have been one of another namespace, pulls by its own rule.
// Its pull has ended by that, too: the question for the size gets the image, and another container of the
// pod, with imagePullPolicy: Never, fails once and not for good.
func TestPullByAnotherRuleEnds(t *testing.T) {
	for _, govern := range []policy.Govern{policy.Starts, policy.Pulls} {
		s := &Starts{Now: func() time.Time { return noon }}
		spec := &runtime.ImageSpec{Annotations: map[string]string{configSeen: "pod"}}
		s.pullers.tell("pod", "app", noon)                                   // its container with Never, which fails once
		s.pullers.tell("pod", "app", noon)                                   // and starts
		_, ended := s.pulling(&runtime.PullImageRequest{Image: spec}, "app") // its container with Always
		var o engine.Outcome
		o.Directives.Govern = govern
		ended(o, nil)
		if _, follows := s.pullers.takeAfterPull("pod", "app", noon); !follows {
			t.Errorf("%v: the question after the pull is told that there is no image", govern)
		}
		told := 0
		for range 6 {
			if s.pullers.tell("pod", "app", noon) {
				told++
			}
		}
		if told == 6 {
			t.Errorf("%v: the container with Never is told for ever that there is no image", govern)
		}
	}
}
