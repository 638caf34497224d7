// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"

	nodes "github.com/pullwarden/pullwarden/integration/node"
)

// answer is what a pull brought; decided is false where the daemon was killed
// before there was a decision.
type answer struct {
	Saw
	id      string
	err     error
	decided bool
	cut     bool   // it did not come to its end: the caller was gone, or leftover
	why     string // for the history
}

func (a answer) String() string {
	if !a.decided {
		return "no decision"
	}
	text := fmt.Sprintf("%v: %s", a.Saw, a.why)
	if a.err != nil {
		text += ": " + a.err.Error()
	}
	return text
}

// pull does pulls at the same time, beside something else that may let the
// first caller leave, and returns what they brought. Pods have names of their own,
// by which the decisions are told apart.
func (h *history) pull(ctx context.Context, pulls []Pull, beside func(leave func()) (end func())) ([]answer, error) {
	mark := h.node.Mark()
	h.reg.forget()
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	first, leave := context.WithCancel(ctx)
	defer leave()
	answers := make([]answer, len(pulls))
	end := beside(leave)
	var all sync.WaitGroup
	for i, p := range pulls {
		all.Go(func() {
			ctx := ctx
			if i == 0 {
				ctx = first
			}
			answers[i].id, answers[i].err = h.node.pull(ctx, h.reg, p, h.pod(i))
		})
	}
	all.Wait()
	end()
	if err := h.decided(mark, answers); err != nil {
		return nil, err
	}
	for i, p := range pulls {
		h.note(p, answers[i])
	}
	return answers, nil
}

// pod is the name of the pod of a pull. Each step has others.
func (h *history) pod(i int) string { return fmt.Sprintf("pod%d-%d", len(h.steps), i) }

// decided reads the decisions from the log. That about a caller who left comes
// after its answer, or never, if its request did not arrive; of a daemon that
// was killed some never come.
func (h *history) decided(mark nodes.Mark, answers []answer) error {
	for deadline := time.Now().Add(leaveLimit); ; time.Sleep(5 * time.Millisecond) {
		decisions, err := h.node.decisions(mark)
		if err != nil {
			return violated("a request has two decisions", "%v", err)
		}
		for i := range answers {
			d, ok := decisions[h.pod(i)]
			if answers[i].decided = ok; ok {
				answers[i].is(d, h.node.killed)
			}
		}
		if len(decisions) == len(answers) || !h.node.Alive() || time.Now().After(deadline) {
			return nil
		}
	}
}

func (a *answer) is(d nodes.Decision, killed bool) {
	a.Saw = Saw{Outcome(d.Outcome), Class(slices.Index(classNames[:], d.Class))}
	if d.Reason == MirrorFallback.String() {
		a.Class = MirrorFallback
	}
	a.cut, a.why = d.Reason == "canceled" || killed && a.leftover(d), d.Reason
	if d.Coalesced {
		a.why += ", coalesced"
	}
}

// leftover reports whether a pull failed by a snapshot's directory without its
// entry in the database, which an earlier kill has left. The first attempt to
// make a snapshot then fails and removes it, also in stock containerd.
func (a *answer) leftover(d nodes.Decision) bool {
	return d.Reason == "pull" && strings.Contains(d.Error, "/snapshots/") && strings.HasSuffix(d.Error, "file exists")
}

func (h *history) note(p Pull, a answer) {
	h.steps = append(h.steps, fmt.Sprintf("   -> %v", a))
	outcome := string(a.Outcome)
	switch {
	case !a.decided:
		outcome = "killed"
	case a.cut:
		outcome = "cut short"
	case a.Class == MirrorFallback:
		outcome += " in need"
	}
	h.done.outcomes[h.reg.now().policy(p)][outcome]++
}

func alone(func()) func() { return func() {} }

// pulls does one pull, or some at the same time.
func (h *history) pulls(ctx context.Context, o Op) error {
	now := h.reg.now()
	answers, err := h.pull(ctx, o.Pulls, alone)
	if err != nil {
		return err
	}
	for i, a := range answers {
		if err := h.answersRight(o.Pulls[i], a); err != nil {
			return err
		}
	}
	if len(o.Pulls) > 1 {
		return orders{h: h, states: []Registry{now}, pulls: o.Pulls, answers: answers}.explain(ctx)
	}
	if err := h.requestsFit(o.Pulls[0], answers[0]); err != nil {
		return err
	}
	return h.follow(ctx, o.Pulls[0], answers[0], now)
}

// pullMeanwhile does pulls while the registry changes.
func (h *history) pullMeanwhile(ctx context.Context, o Op) error {
	change := *o.Change
	if change.Trouble == Swallows {
		change.Trouble = Refuses // downloads would wait for half a minute
	}
	before, failed := h.reg.now(), error(nil)
	answers, err := h.pull(ctx, o.Pulls, func(func()) (end func()) {
		return h.reg.at(o.Moment, func() { failed = h.change(ctx, change) })
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	for i, a := range answers {
		if err := h.answersRight(o.Pulls[i], a); err != nil {
			return err
		}
	}
	refuses := change.Kind == DoDeny || change.Trouble == Forbids
	states := []Registry{before, h.reg.now()}
	if between := h.reg.now(); between.Mirror && (change.Kind == DoPush || change.Kind == DoDelete) {
		between.Mirror = false // it has what is pushed a little later
		states = []Registry{before, between, h.reg.now()}
	}
	return orders{h: h, states: states, inOrder: refuses, pulls: o.Pulls, answers: answers}.explain(ctx)
}

// leave does pulls of which the first caller leaves before the end.
func (h *history) leave(ctx context.Context, o Op) error {
	now := h.reg.now()
	answers, err := h.pull(ctx, o.Pulls, func(leave func()) (end func()) { return h.reg.at(o.Moment, leave) })
	if err != nil {
		return err
	}
	for i, a := range answers {
		if i == 0 {
			continue // its answer, or even its request, may be lost on the way
		}
		if err := h.answersRight(o.Pulls[i], a); err != nil {
			return err
		}
	}
	return orders{h: h, states: []Registry{now}, pulls: o.Pulls, answers: answers}.explain(ctx)
}

// follow finds the branches of the model that explain what a pull brought.
func (h *history) follow(ctx context.Context, p Pull, a answer, now Registry) error {
	if a.cut {
		return orders{h: h, states: []Registry{now}, pulls: []Pull{p}, answers: []answer{a}}.explain(ctx)
	}
	var fit []Branch
	var allowed []Saw
	for _, w := range h.worlds {
		for _, b := range w.Pull(now, now, p) {
			allowed = append(allowed, b.Saw)
			if b.Saw == a.Saw && h.isImage(a, b.After.content(p)) {
				fit = append(fit, b)
			}
		}
	}
	if len(fit) == 0 {
		return violated("a pull ends as the contract does not allow", "%v\nbrought %v, image %s\nallowed is %v\nthe node had %v\nthe registry was %+v",
			p, a, a.id, allowed, h.worlds, now)
	}
	h.become(fit)
	if a.Outcome == Failed {
		return h.healthy(ctx) // no image is lost
	}
	return nil
}

// isImage reports whether the image that was returned is that of the content.
func (h *history) isImage(a answer, content int) bool {
	return a.Outcome == Failed || content > 0 && (a.id == h.reg.id(content) || a.id == "")
}

// answersRight holds that what CRI answers is what was decided.
func (h *history) answersRight(p Pull, a answer) error {
	if !a.decided {
		return violated("a request without a decision", "%v: %v", p, a.err)
	}
	if (a.err != nil) != (a.Outcome == Failed) || (a.id == "") != (a.err != nil) {
		return violated("the answer is not what was decided", "%v: %v, image %q", p, a, a.id)
	}
	if a.err == nil {
		return nil
	}
	s := status.Convert(a.err)
	told := s.Code() == codes.Unknown && strings.HasPrefix(s.Message(), "RegistryUnavailable")
	if own := a.Class == Unreachable || a.Class == Unavailable || a.Class == RateLimited; told != own {
		return violated("RegistryUnavailable is for unreachable, unavailable and rate_limited", "%v: %v", p, a)
	}
	return nil
}

// open reports whether the image may be everybody's, but for a registry that is
// asked first.
func (h *history) open(p Pull) bool { return h.reg.now().policy(p) != Never && h.granted(p, open) }

// granted reports whether that may be what the caller has of the image.
func (h *history) granted(p Pull, what grant) bool {
	now := h.reg.now()
	return slices.ContainsFunc(h.worlds, func(w World) bool { return w.grant(now, p) == what })
}

// requestsFit holds that what needs no request costs none, and a check no
// download. A fallback without a failed request is for hosts in trouble.
func (h *history) requestsFit(p Pull, a answer) error {
	all, downloads, confirmed := 0, 0, 0
	reads, check := h.reg.now().Rule.Fresh.Manifest, http.MethodHead
	if reads {
		check = http.MethodGet
	}
	unproved := slices.ContainsFunc(h.worlds, func(w World) bool { return w.unproved(h.reg.now(), p) })
	for _, r := range h.reg.requests() {
		all++
		if r.Method == http.MethodGet && (r.Part == resolvertest.Manifests && !reads && !unproved || r.Part == resolvertest.Blobs) {
			downloads++
		}
		if (r.Method == check || unproved || a.Outcome == Pulled) && r.Part == resolvertest.Manifests && r.Status == http.StatusOK {
			confirmed++
		}
	}
	bad := false
	switch a.Outcome {
	case Fresh:
		bad = all > 0
	case Present:
		bad = all > 0 && !h.open(p)
	case Unchanged:
		bad = downloads > 0 || confirmed == 0
	case Pulled:
		bad = confirmed == 0
	case UsedCached:
		bad = a.Class == MirrorFallback && (confirmed == 0 || downloads > 0)
	}
	if bad {
		return violated("the requests do not fit the outcome", "%v: %v: %d requests, %d checks confirmed, %d downloads", p, a, all, confirmed, downloads)
	}
	return nil
}
