// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// Start is the decision about the start of a container, under govern = "Starts": whether
// the cached image serves it without a registry.
type Start struct {
	// Directives are those that applied; where a hint is bad, those without hints.
	Directives policy.Effective
	// Governed says that the decision holds for the start. The rest is zero otherwise.
	Governed bool
	// Reuse says that Ensure would reuse the cached image as it is, and ask nobody.
	Reuse bool
	// ImageID is CRI's of the image that would be reused; "" where none would. What the name
	// stands for before and after is another matter.
	ImageID string
	// Used are the directives that took part, in the order of their use.
	Used []policy.Key
}

// StartAnswer is the answer to a kubelet that asks whether an image is there. The answers
// are values of a metric's label: keep them few.
type StartAnswer string

// The answers to questions about images that are there.
const (
	AnswerPull     StartAnswer = "pull"     // there is none: the kubelet is to pull it
	AnswerReuse    StartAnswer = "reuse"    // the image: no registry needs to be asked
	AnswerPulled   StartAnswer = "pulled"   // the image, which the pod has just pulled
	AnswerNoPull   StartAnswer = "no_pull"  // the image, for a pod that does not pull
	AnswerUnproved StartAnswer = "unproved" // there is none, for a pod that does not pull and has no proof
)

// StartAnswers lists all answers.
func StartAnswers() []StartAnswer {
	return []StartAnswer{AnswerPull, AnswerReuse, AnswerPulled, AnswerNoPull, AnswerUnproved}
}

// Start says whether Ensure would reuse the cached image without asking a registry, by
// the same steps and the same decision. Nothing changes, but that a proof counts as used.
// The image verifiers are asked, as for each reuse. A pod that does not pull cannot prove
// anything: it gets what the policy Never would give it. The request is one of whoever
// asks: a caller without credentials has the proofs that hold for everybody.
func (e *Engine) Start(ctx context.Context, req Request, pulls bool) Start {
	dry := e.dryRun(&drySide{Records: e.Records})
	req.Runtime = dryRuntime{req.Runtime}
	t, c := dry.begin(ctx, req)
	s := Start{Directives: t.directives, Governed: t.directives.GovernsStart(t.byDigest())}
	if !s.Governed {
		return s
	}
	if !pulls {
		t.directives.Policy = policy.Never
	}
	if !c.over() && !t.asksAlways() {
		c = dry.unasked(ctx, t, c)
		// A pull unpacks an image for the snapshotter that wants it. The start of a
		// container does that too, whatever hosts the layers there came from.
		complete := !c.local.incomplete || !pulls && !t.restricted()
		s.Reuse = c.over() && c.end.kind != Failed && complete
	}
	if s.Reuse {
		s.ImageID = c.end.imageID
	}
	s.Used = c.used
	if by := c.local.Grant.By; s.Reuse && by != "" {
		e.Proofs.Used(ctx, by, e.Now(), t.names(c.local.target())...)
	}
	return s
}
