// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	pullLimit  = 30 * time.Second
	labelLimit = 10 * time.Second // labels are written behind the answer
)

// happened is what there is to tell of a step.
type happened struct {
	decision node.Decision
	asked    bool // whether the image is there, to which the answer was no
	took     time.Duration
	err      error // the answer to the kubelet
	costs    []cost
	stale    map[string]string // the marks on the image
	freed    bool              // there were marks before
}

// cost is what a registry had to do.
type cost struct {
	name        string
	requests    []resolvertest.Request
	connections int
}

// tell lets a step happen, prints it, and compares.
func tell(ctx context.Context, w *world, out *printer, number int, s step) error {
	out.begin(number, s)
	if s.change != nil {
		if err := s.change(ctx, w); err != nil {
			return err
		}
	}
	h, err := watch(ctx, w, s)
	if err != nil {
		return err
	}
	out.end(s, h)
	got := decision{outcome: h.decision.Outcome, reason: h.decision.Reason, kubelet: node.KubeletReason(h.err), stale: h.stale["stale-reason"]}
	if got != s.want {
		return fmt.Errorf("the story says %+v, the node %+v", s.want, got)
	}
	return nil
}

// watch starts the step's pod, as far as its image goes.
func watch(ctx context.Context, w *world, s step) (happened, error) {
	var h happened
	w.registry.Forget()
	w.mirror.Forget()
	connections := [2]int{w.registry.Connections(), w.mirror.Connections()}
	mark := w.node.Mark()
	marked, err := staleMarks(ctx, w, s.pod.image)
	if err != nil {
		return h, err
	}

	began := time.Now()
	h.asked, h.err = startPod(ctx, w, s.pod)
	h.took = time.Since(began)

	if ctx.Err() != nil {
		return h, ctx.Err()
	}
	h.costs = []cost{
		{registryName, w.registry.Requests(), w.registry.Connections() - connections[0]},
		{mirrorName, w.mirror.Requests(), w.mirror.Connections() - connections[1]},
	}
	if h.decision, err = w.node.Decision(mark, s.pod.image); err != nil {
		return h, errors.Join(err, h.err)
	}
	h.stale, err = awaitMarks(ctx, w, s.pod.image, s.want.stale)
	h.freed = len(marked) > 0 && len(h.stale) == 0
	return h, err
}

// configSeen is the annotation that a kubelet puts into those of every pod.
const configSeen = "kubernetes.io/config.seen"

// startPod gets the image for a container of the pod, as a kubelet does by its
// imagePullPolicy. It reports whether the kubelet has asked for the image before it
// pulled; one that is there is not pulled.
func startPod(ctx context.Context, w *world, p pod) (asked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	seen := time.Now().Format(time.RFC3339Nano)
	if p.ifNotPresent {
		status, err := w.node.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{
			Image: &runtimeapi.ImageSpec{Image: p.image, Annotations: map[string]string{configSeen: seen}},
		})
		if err != nil || status.GetImage() != nil {
			return false, err
		}
	}
	return p.ifNotPresent, pull(ctx, w, p, node.Annotations(configSeen, seen))
}

// pull asks the node to pull the image.
func pull(ctx context.Context, w *world, p pod, opts ...node.PullOption) error {
	namespace, name, _ := strings.Cut(p.name, "/")
	opts = append(opts, node.Pod(namespace, name))
	for _, hint := range p.hints {
		opts = append(opts, node.Hint(hint[0], hint[1]))
	}
	if p.secret != nil {
		opts = append(opts, node.Credentials(p.secret.user, p.secret.password))
	}
	_, err := w.node.Pull(ctx, p.image, opts...)
	return err
}

// awaitMarks waits for the mark that is expected, and returns those that are
// there then, or at the limit.
func awaitMarks(ctx context.Context, w *world, image, want string) (map[string]string, error) {
	limit, cancel := context.WithTimeout(ctx, labelLimit)
	defer cancel()
	for {
		marks, err := staleMarks(ctx, w, image)
		if err != nil || marks["stale-reason"] == want {
			return marks, err
		}
		select {
		case <-limit.Done():
			return marks, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// staleMarks returns the marks on an image, none where there is no image.
func staleMarks(ctx context.Context, w *world, image string) (map[string]string, error) {
	labels, err := w.node.Labels(ctx, image)
	if err != nil && !errdefs.IsNotFound(err) {
		return nil, err
	}
	marks := map[string]string{}
	for _, key := range []string{"stale-reason", "stale-since"} {
		if v, ok := labels[key]; ok {
			marks[key] = v
		}
	}
	return marks, nil
}
