// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// wordy is a runtime service, and an Unpacker, that warn very often, and fail with long errors.
type wordy struct {
	unpacking
	unpacks bool // the Unpacker does not fail
}

func (w *wordy) say(ctx context.Context) error {
	for i := range 10_000 {
		log.G(ctx).Warnf("ignored xattr %d in archive", i)
	}
	return fmt.Errorf("mkdir /%s: %w", strings.Repeat("x", 1<<20), errdefs.ErrNotFound)
}

func (w *wordy) Unpack(ctx context.Context, _ string, _ []string, _ string) error {
	if w.unpacks {
		return nil
	}
	return w.say(ctx)
}

func (w *wordy) CreateContainer(ctx context.Context, _ *runtime.CreateContainerRequest) (*runtime.CreateContainerResponse, error) {
	return nil, w.say(ctx)
}

func (w *wordy) StartContainer(context.Context, *runtime.StartContainerRequest) (*runtime.StartContainerResponse, error) {
	return nil, fmt.Errorf("exec /%s: %w", strings.Repeat("x", 1<<20), errdefs.ErrNotFound)
}

// An image has containerd warn as often as it likes where it is unpacked for a container, and says how long an error is.
func TestErrorsOfContainersAreBounded(t *testing.T) {
	i := &images{names: [][]string{{first.String(), "registry.test/a:1"}}}
	for what, unpacks := range map[string]bool{"unpacked before": false, "unpacked by CRI": true} {
		var logged bytes.Buffer
		logger := logrus.New()
		logger.Out = &logged
		ctx := log.WithLogger(t.Context(), logrus.NewEntry(logger))
		w := &wordy{unpacks: unpacks}
		s := NewRuntimeService(w, i, knows(), nil)
		s.Unpacker = w
		_, err := s.CreateContainer(ctx, &runtime.CreateContainerRequest{
			PodSandboxId: "sandbox", Config: &runtime.ContainerConfig{Image: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: "registry.test/a:1"}},
		})
		if !errdefs.IsNotFound(err) || len(err.Error()) > maxErrorText+len("…") || !strings.HasPrefix(err.Error(), "mkdir /x") {
			t.Errorf("%s: an error of %d bytes: %.100v", what, len(err.Error()), err)
		}
		if n := strings.Count(logged.String(), "ignored xattr"); n == 0 || n > 100 || !strings.Contains(logged.String(), "lines are left out") {
			t.Errorf("%s: %d lines in the log: %.1000s", what, n, &logged)
		}
		_, err = s.StartContainer(ctx, &runtime.StartContainerRequest{})
		if !errdefs.IsNotFound(err) || len(err.Error()) > maxErrorText+len("…") {
			t.Errorf("an error of %d bytes of a start: %.100v", len(err.Error()), err)
		}
	}
}
