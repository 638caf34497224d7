// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// tornNode is CRI that looks for the ID of a name, and then for the image of that ID, under two locks: where the name is
// moved in between, its answer is the old image, without that name.
type tornNode struct {
	*movingNode
	torn bool // the next look
}

func (n *tornNode) ImageStatus(ctx context.Context, r *runtime.ImageStatusRequest) (*runtime.ImageStatusResponse, error) {
	response, err := n.movingNode.ImageStatus(ctx, r)
	if n.torn {
		n.torn = false
		return &runtime.ImageStatusResponse{Image: &runtime.Image{Id: privateID, RepoDigests: []string{"registry.test/app@" + privateID}}}, nil
	}
	return response, err
}

// Such an answer is none to a question by an ID: CRI is asked again.
func TestAnswerWithoutTheName(t *testing.T) {
	for _, access := range []policy.Access{policy.Verified, policy.Strict} {
		n := &movingNode{access: access, tag: []string{everybodyID}}
		s, answers := n.starting(false)
		s.ImageServiceServer = &tornNode{n, true}
		response, err := s.ImageStatus(t.Context(), &runtime.ImageStatusRequest{Image: ofPod(movingTag)})
		if err != nil || response.GetImage().GetId() != everybodyID {
			t.Errorf("%v: the tag stands for %q, and of that is decided; the pod sees %q, %v, answers %q", access, everybodyID, response.GetImage().GetId(), err, *answers)
		}
	}
}
