// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/store"
)

const (
	movingTag   = "registry.test/app:1"
	privateID   = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	everybodyID = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

// movingNode is a node that has a private image, and one that is everybody's, with an engine that decides about
// what the tag stands for as it is asked.
type movingNode struct {
	images
	access policy.Access
	tag    []string // the image IDs that the tag stands for, one look after another
	pulled string   // the image ID of a pull
	looks  int
}

func (n *movingNode) ImageStatus(ctx context.Context, r *runtime.ImageStatusRequest) (*runtime.ImageStatusResponse, error) {
	n.looks++
	n.names = [][]string{{privateID}, {everybodyID}}
	for i, names := range n.names {
		if names[0] == n.tag[0] {
			n.names[i] = append(names, movingTag)
		}
	}
	if len(n.tag) > 1 {
		n.tag = n.tag[1:]
	}
	r.Image.Image = normalised(r.GetImage().GetImage())
	return n.images.ImageStatus(ctx, r)
}

func (n *movingNode) PullImage(context.Context, *runtime.PullImageRequest) (*runtime.PullImageResponse, error) {
	return &runtime.PullImageResponse{ImageRef: n.pulled}, nil
}

// movingEngine is the engine of a movingNode.
type movingEngine struct {
	*movingNode
	observed bool
}

func (e movingEngine) Start(ctx context.Context, req engine.Request, _ bool) engine.Start {
	start := engine.Start{Governed: true}
	start.Directives.Access = e.access
	if id, _ := req.Runtime.ImageID(ctx); id == everybodyID {
		start.Reuse, start.ImageID = true, id
	}
	return start
}

func (e movingEngine) Ensure(ctx context.Context, req engine.Request) (engine.Outcome, error) {
	if e.observed {
		return engine.Outcome{Observed: true}, req.Runtime.StockPull(ctx)
	}
	return engine.Outcome{ImageID: e.pulled}, nil
}

// starting returns the service of a node, whose engine may observe alone, and the answers that it has counted.
func (n *movingNode) starting(observed bool) (*ImageService, *[]engine.StartAnswer) {
	var answers []engine.StartAnswer
	starts := &Starts{
		Governs:      func(context.Context, policy.Image) (bool, error) { return true, nil },
		ProvesStarts: func(context.Context) (bool, error) { return true, nil }, Sandboxes: &sandboxes{},
		Observe: func(a engine.StartAnswer) { answers = append(answers, a) }, Now: func() time.Time { return noon },
	}
	s := NewImageService(n, &sandboxes{}, movingEngine{n, observed}, knows(), Config{}, &store.Key{}, &sandboxed{})
	return s.WithStarts(starts), &answers
}

func ofPod(name string) *runtime.ImageSpec {
	return &runtime.ImageSpec{Image: name, Annotations: map[string]string{configSeen: "pod"}}
}

// TestImageOfTheDecision has a pod see the image that was decided about, and no other that its name stood for as CRI
// was asked.
func TestImageOfTheDecision(t *testing.T) {
	const x, y = privateID, everybodyID
	for what, tc := range map[string]struct {
		name    string
		access  policy.Access
		tag     []string
		skips   bool // the pod does not pull
		want    string
		code    codes.Code
		answers []engine.StartAnswer
	}{
		"it stays":                       {movingTag, policy.Strict, []string{y}, false, y, codes.OK, []engine.StartAnswer{engine.AnswerReuse}},
		"moved":                          {movingTag, policy.Strict, []string{x, y}, false, y, codes.OK, []engine.StartAnswer{engine.AnswerReuse}},
		"moved, under Verified":          {movingTag, policy.Verified, []string{x, y}, false, y, codes.OK, []engine.StartAnswer{engine.AnswerReuse}},
		"moved and back":                 {movingTag, policy.Strict, []string{x, y, x}, false, "", codes.OK, []engine.StartAnswer{engine.AnswerPull}},
		"moved again and again":          {movingTag, policy.Strict, []string{x, y, x, y, x, y, x, y}, false, "", codes.Aborted, nil},
		"moved before the last decision": {movingTag, policy.Strict, []string{x, x, y}, true, y, codes.OK, []engine.StartAnswer{engine.AnswerReuse}},
		"private, for who does not pull": {movingTag, policy.Strict, []string{x}, true, "", codes.OK, []engine.StartAnswer{engine.AnswerUnproved}},
		"the ID":                         {y, policy.Strict, []string{y}, false, y, codes.OK, nil},
		"the ID of what the tag was":     {x, policy.Strict, []string{x, y}, false, "", codes.OK, []engine.StartAnswer{engine.AnswerUnproved}},
	} {
		n := &movingNode{access: tc.access, tag: tc.tag}
		s, answers := n.starting(false)
		if tc.skips {
			s.starts.pullers.tell("pod", movingTag, noon)
		}
		response, err := s.ImageStatus(t.Context(), &runtime.ImageStatusRequest{Image: ofPod(tc.name)})
		if got := response.GetImage().GetId(); got != tc.want || status.Code(err) != tc.code || !slices.Equal(*answers, tc.answers) {
			t.Errorf("%s: %q, %v, answers %q; want %q, %v, %q", what, got, err, *answers, tc.want, tc.code, tc.answers)
		}
		if n.looks > 2*maxLooks {
			t.Errorf("%s: CRI is asked %d times", what, n.looks)
		}
	}
}

// TestImageOfThePull has the question after a pull be answered with the image that was pulled, and with none where
// the name has been moved since. That is not taken for one of a pod that does not pull.
func TestImageOfThePull(t *testing.T) {
	for _, observed := range []bool{false, true} {
		for now, want := range map[string]engine.StartAnswer{privateID: engine.AnswerPulled, everybodyID: engine.AnswerPull} {
			n := &movingNode{access: policy.Strict, tag: []string{privateID}, pulled: privateID}
			s, answers := n.starting(observed)
			ask := func() string {
				response, err := s.ImageStatus(t.Context(), &runtime.ImageStatusRequest{Image: ofPod(movingTag)})
				if err != nil {
					t.Error(err)
				}
				return response.GetImage().GetId()
			}
			ask()
			if _, err := s.PullImage(t.Context(), &runtime.PullImageRequest{Image: ofPod(movingTag)}); err != nil {
				t.Error(err)
			}
			n.tag = []string{now}
			if got := ask(); got != "" && got != privateID {
				t.Errorf("a pod that has pulled %q sees %q", privateID, got)
			}
			n.tag = []string{privateID}
			ask()
			if all := []engine.StartAnswer{engine.AnswerPull, want, engine.AnswerPull}; !slices.Equal(*answers, all) {
				t.Errorf("observed: %v: %q, want %q", observed, *answers, all)
			}
		}
	}
}

// TestQuestionEndsBeforeTheRulesAreRead has a pod see no image by the rules of before while new ones are read.
func TestQuestionEndsBeforeTheRulesAreRead(t *testing.T) {
	for what, name := range map[string]string{"a name": movingTag, "an ID": everybodyID} {
		n := &movingNode{access: policy.Strict, tag: []string{everybodyID}}
		s, answers := n.starting(false)
		s.starts.Governs = func(context.Context, policy.Image) (bool, error) { return false, context.Canceled }
		for range 2 {
			response, err := s.ImageStatus(t.Context(), &runtime.ImageStatusRequest{Image: ofPod(name)})
			if !errors.Is(err, context.Canceled) || response.GetImage() != nil || len(*answers) > 0 {
				t.Errorf("%s: %v, %v, answers %q", what, response, err, *answers)
			}
			s.starts.ProvesStarts = func(context.Context) (bool, error) { return false, context.Canceled }
		}
	}
}
