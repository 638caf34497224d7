// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	prefix     = "pullwarden.io/"
	pullLimit  = 30 * time.Second
	labelLimit = 10 * time.Second // labels are written behind the answer
)

// happened is what there is to tell of a step.
type happened struct {
	line  logLine
	took  time.Duration
	err   error // the answer to the kubelet
	costs []cost
	stale map[string]string // the marks on the image
	freed bool              // there were marks before
}

// logLine is the line of a decision in the daemon's log.
type logLine struct {
	Level       string `json:"level"`
	Message     string `json:"msg"`
	Image       string `json:"image"`
	Policy      string `json:"policy"`
	Outcome     string `json:"outcome"`
	Reason      string `json:"reason"`
	Digest      string `json:"digest"`
	DecidedBy   string `json:"decided_by"`
	LastChecked string `json:"last_checked"`
	Attempts    string `json:"attempts"`
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
	got := decision{outcome: h.line.Outcome, reason: h.line.Reason, kubelet: kubeletReason(h.err), stale: h.stale["stale-reason"]}
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
	before, err := w.node.Log()
	if err != nil {
		return h, err
	}
	marked, err := staleMarks(ctx, w, s.pod.image)
	if err != nil {
		return h, err
	}

	began := time.Now()
	h.err = pull(ctx, w, s.pod)
	h.took = time.Since(began)

	if ctx.Err() != nil {
		return h, ctx.Err()
	}
	h.costs = []cost{
		{registryName, w.registry.Requests(), w.registry.Connections() - connections[0]},
		{mirrorName, w.mirror.Requests(), w.mirror.Connections() - connections[1]},
	}
	log, err := w.node.Log()
	if err != nil {
		return h, err
	}
	if h.line, err = decisionIn(log[len(before):], s.pod.image); err != nil {
		return h, errors.Join(err, h.err)
	}
	h.stale, err = awaitMarks(ctx, w, s.pod.image, s.want.stale)
	h.freed = len(marked) > 0 && len(h.stale) == 0
	return h, err
}

// pull asks the node for the image, as a kubelet does with imagePullPolicy
// Always.
func pull(ctx context.Context, w *world, p pod) error {
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	annotations := map[string]string{}
	for _, hint := range p.hints {
		annotations[prefix+hint[0]] = hint[1]
	}
	namespace, name, _ := strings.Cut(p.name, "/")
	req := &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: p.image, UserSpecifiedImage: p.image, Annotations: annotations},
		SandboxConfig: &runtimeapi.PodSandboxConfig{
			Metadata:    &runtimeapi.PodSandboxMetadata{Name: name, Uid: name, Namespace: namespace},
			Annotations: annotations,
		},
	}
	if p.secret != nil {
		req.Auth = &runtimeapi.AuthConfig{Username: p.secret.user, Password: p.secret.password}
	}
	_, err := w.node.Images.PullImage(ctx, req)
	return err
}

// decisionIn finds the one line about a decision in a piece of log.
func decisionIn(log, image string) (logLine, error) {
	var found []logLine
	for text := range strings.Lines(log) {
		var line logLine
		if json.Unmarshal([]byte(text), &line) == nil && line.Image == image && line.Outcome != "" {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		return logLine{}, fmt.Errorf("the log has %d decisions about %s, want 1", len(found), image)
	}
	return found[0], nil
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
	record, err := w.node.Client.ImageService().Get(ctx, image)
	if err != nil && !errdefs.IsNotFound(err) {
		return nil, err
	}
	marks := map[string]string{}
	for _, key := range []string{"stale-reason", "stale-since"} {
		if v, ok := record.Labels[prefix+key]; ok {
			marks[key] = v
		}
	}
	return marks, nil
}

// kubeletReason is the reason that a kubelet shows for a pull that fails.
func kubeletReason(err error) string {
	const unavailable = "RegistryUnavailable"
	s := status.Convert(err)
	switch {
	case err == nil:
		return ""
	case s.Code() == codes.Unknown && strings.HasPrefix(s.Message(), unavailable):
		return unavailable
	}
	return "ErrImagePull"
}
