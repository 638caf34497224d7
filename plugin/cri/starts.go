// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// configSeen is the annotation that a kubelet puts into those of every pod, whatever its
// source, over a pod's own: when it has first seen the pod. It is another one for each
// pod, and after a restart of the kubelet. Questions that are not about a pod lack it.
const configSeen = "kubernetes.io/config.seen"

// Starts makes the policy hold for the starts of containers under govern = "Starts": a
// kubelet that asks whether an image is there is told that it is not, where the policy
// would ask a registry, and pulls it. All fields are needed. It is safe for concurrent
// use.
type Starts struct {
	// Governs reports whether govern is Starts for an image, in one namespace at least. The
	// error is that of a context which ends while there are new rules to be read.
	Governs func(context.Context, policy.Image) (bool, error)
	// ProvesStarts reports whether each start takes a proof, of some images at least. The
	// error is as that of Governs.
	ProvesStarts func(context.Context) (bool, error)
	Sandboxes    Sandboxes
	// Observe is told each answer to a governed question.
	Observe func(engine.StartAnswer)
	// Now is the clock.
	Now func() time.Time

	pullers pullers
	again   seenAgain
}

// question is one of a kubelet about the start of a pod's container.
type question struct {
	seen  string                // the pod, by the kubelet's annotation
	image string                // the normalised reference
	pods  []*runtime.PodSandbox // that it may be
	sure  bool                  // it is that, by what the kubelet says
	// requests are the pulls that may follow, one for each namespace and snapshotter.
	requests []engine.Request
}

// mayStart reports whether a pod may start a container of an image, which CRI has for that name,
// without a pull.
func (s *ImageService) mayStart(ctx context.Context, spec *runtime.ImageSpec, seen string, named reference.Named, imageID string) (bool, error) {
	if governs, err := s.starts.Governs(ctx, policy.ImageOf(named)); err != nil || !governs {
		return err == nil, err
	}
	if pulled, follows := s.starts.pullers.takeAfterPull(seen, named.String(), s.starts.Now()); follows {
		if pulled != imageID { // the name has been moved since: the decision about the pull was none about this image
			s.starts.answer(ctx, question{image: named.String()}, engine.AnswerPull, nil)
			return false, nil
		}
		s.starts.answer(ctx, question{image: named.String()}, engine.AnswerPulled, nil)
		return true, nil
	}
	pods, sure, err := s.starts.podsOf(ctx, seen)
	if err != nil {
		return false, err
	}
	q, err := s.question(spec, seen, named, pods, sure)
	if err != nil {
		return false, err
	}
	stop, governed := s.decide(ctx, q, imageID, true)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	switch {
	case !governed:
		return true, nil
	case isOfAnother(stop):
		return false, errMoved
	case stop == nil:
		s.starts.answer(ctx, q, engine.AnswerReuse, nil)
		return true, nil
	case s.starts.pullers.tell(seen, q.image, s.starts.Now()):
		s.starts.answer(ctx, q, engine.AnswerPull, stop)
		return false, nil
	case stop.Directives.Access != policy.Strict:
		s.starts.answer(ctx, q, engine.AnswerNoPull, stop)
		return true, nil
	}
	// A tenant chooses its imagePullPolicy: it is no way around a proof.
	unproved, _ := s.decide(ctx, q, imageID, false)
	if isOfAnother(unproved) {
		return false, errMoved
	}
	if unproved != nil {
		s.starts.answer(ctx, q, engine.AnswerUnproved, unproved)
		return false, ctx.Err()
	}
	s.starts.answer(ctx, q, engine.AnswerNoPull, stop)
	return true, ctx.Err()
}

// maxNamesByID bounds the names of an image for which a question by its ID is decided: each
// takes a look at the node, and a tenant gives an image of its own as many as it likes.
const maxNamesByID = 16

// mayStartByID reports whether a pod may start a container of an image that it names by
// its ID, or a part of that: where it may by one of the names that still are the image's,
// of which those with digests come first, since all tags of a repository share its proofs.
// No pull takes an ID, so that nothing can be proved for it. An image that has lost its
// names may be one that takes a proof. The kubelet also looks by the ID for the images of
// volumes that the pod has: it sees those, where it is sure which pod asks.
func (s *ImageService) mayStartByID(ctx context.Context, spec *runtime.ImageSpec, seen string, image *runtime.Image) (bool, error) {
	var governed []reference.Named
	for _, name := range slices.Backward(namesOf(image)) {
		named, err := reference.ParseDockerRef(name)
		if err != nil {
			continue
		}
		if governs, err := s.starts.Governs(ctx, policy.ImageOf(named)); err != nil || !governs {
			return err == nil, err
		}
		governed = append(governed, named)
	}
	if governed == nil {
		if proves, err := s.starts.ProvesStarts(ctx); err != nil || !proves {
			return err == nil, err
		}
	}
	pods, sure, err := s.starts.podsOf(ctx, seen)
	if err != nil {
		return false, err
	}
	var unproved *engine.Start
	for _, named := range governed[:min(len(governed), maxNamesByID)] {
		q, err := s.question(spec, seen, named, pods, sure)
		if err != nil {
			return false, err
		}
		unproved, _ = s.decide(ctx, q, image.GetId(), false)
		if err := ctx.Err(); err != nil || unproved == nil {
			return err == nil, err
		}
	}
	if sure {
		if mounted, err := s.starts.mounted(ctx, pods, image.GetId()); mounted || err != nil {
			return mounted, err
		}
	}
	s.starts.answer(ctx, question{seen: seen, image: image.GetId(), pods: pods}, engine.AnswerUnproved, unproved)
	return false, nil
}

// question returns the question for the image of one of the pods, in the words of the
// pulls that may follow.
func (s *ImageService) question(spec *runtime.ImageSpec, seen string, named reference.Named, pods []*runtime.PodSandbox, sure bool) (question, error) {
	q := question{seen: seen, image: named.String(), pods: pods, sure: sure}
	pull := func(namespace string) *runtime.PullImageRequest {
		return &runtime.PullImageRequest{
			Image: &runtime.ImageSpec{Image: q.image, Annotations: spec.GetAnnotations(), RuntimeHandler: spec.GetRuntimeHandler()},
			SandboxConfig: &runtime.PodSandboxConfig{
				Metadata: &runtime.PodSandboxMetadata{Namespace: namespace}, Annotations: spec.GetAnnotations(),
			},
		}
	}
	if len(pods) == 0 {
		r := pull("")
		req, _, err := s.request(r, s.puller.SnapshotterFor(runtimeHandler(r)))
		q.requests = append(q.requests, req)
		return q, err
	}
	for _, at := range s.places(pods) {
		req, _, err := s.request(pull(at.namespace), at.snapshotter)
		if err != nil {
			return question{}, err
		}
		q.requests = append(q.requests, req)
	}
	return q, nil
}

// decide returns why the image with that ID must not be reused as it is, the strictest of the
// decisions for what the pod may be; nil where it may. One to reuse another image, to which
// the name has been moved, is none to reuse this one. It is not governed where all of these
// leave the question alone; where nobody is sure of the pod, where one of them [mindsPull], but for [policy.Strict]: a
// trial in one namespace makes no pod of another one pull, and doubt is no way around a proof. Of pods that do not
// pull only [policy.Strict] asks for a proof.
func (s *ImageService) decide(ctx context.Context, q question, imageID string, pulls bool) (stop *engine.Start, governed bool) {
	minds := false
	for _, req := range q.requests {
		start := s.engine.Start(ctx, req, pulls)
		governed = governed || start.Governed
		minds = minds || !q.sure && !start.Governed && s.mindsPull(ctx, req)
		strict := start.Directives.Access == policy.Strict
		if !start.Governed || start.Reuse && start.ImageID == imageID || !pulls && !strict {
			continue
		}
		if strict {
			return &start, true
		}
		stop = &start
	}
	if minds {
		return nil, false
	}
	return stop, governed
}

// mindsPull reports whether a pull that a pod would not make otherwise is decided as none of a start would be: by
// containerd itself, or by a policy that asks the registry. IfNotPresent reuses what is there. So the rules say: a hint is
// the asking pod's own, which may be none of that namespace.
func (s *ImageService) mindsPull(ctx context.Context, req engine.Request) bool {
	req.Annotations = nil
	ruled := s.engine.Start(ctx, req, true)
	return !ruled.Governed && (ruled.Directives.Mode == policy.Observe || ruled.Directives.Policy != policy.IfNotPresent)
}

// isOfAnother reports whether what [ImageService.decide] returned says that another image may be reused.
func isOfAnother(stop *engine.Start) bool { return stop != nil && stop.Reuse }

// answer logs and counts an answer. The decision is why the image is not simply there;
// nil where it is. A pod that is refused for good is warned of.
func (s *Starts) answer(ctx context.Context, q question, answer engine.StartAnswer, stop *engine.Start) {
	s.Observe(answer)
	entry := prefixlog.G(ctx).WithField("image", q.image).WithField("answer", string(answer))
	if pods := names(q.pods); len(pods) == 1 {
		entry = entry.WithField("pod_namespace", pods[0].namespace).WithField("pod", pods[0].name)
	}
	if stop != nil {
		parts := []string{stop.Directives.Describe(policy.KeyGovern)}
		for _, k := range append([]policy.Key{policy.KeyPolicy, policy.KeyAccess}, stop.Used...) {
			if text := stop.Directives.Describe(k); !slices.Contains(parts, text) {
				parts = append(parts, text)
			}
		}
		entry = entry.WithField("decided_by", strings.Join(parts, ", "))
	}
	if answer == engine.AnswerUnproved && s.pullers.warn(q.seen, q.image, s.Now()) {
		entry.Warn("a pod that does not pull (imagePullPolicy: Never) is told that there is no image: nothing proves that it may have the cached one, and it proves nothing itself")
		return
	}
	entry.Debug("a pod asks whether an image is there: " + string(answer))
}

// pulling notes that a kubelet pulls for a pod, and reports whether it was told to. The
// function that it returns is to be called when the pull has ended.
func (s *Starts) pulling(r *runtime.PullImageRequest, image string) (told bool, ended func(o engine.Outcome, err error)) {
	seen := r.GetImage().GetAnnotations()[configSeen]
	if s == nil || seen == "" {
		return false, func(engine.Outcome, error) {}
	}
	s.again.note(r.GetSandboxConfig())
	told, noted := s.pullers.begin(seen, image, s.Now())
	return told, func(o engine.Outcome, err error) {
		if noted || o.Directives.Govern == policy.Starts {
			s.pullers.end(seen, image, o.ImageID, err == nil, s.Now())
		}
	}
}
