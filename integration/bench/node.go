// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/daemon"
)

// node is a daemon of one side.
type node struct {
	*daemon.Daemon
	side    side
	touched int // how often
}

// start configures the registries and starts the daemon.
func (n *node) start(ctx context.Context, p *pair, rules string) error {
	hosts, err := n.Server(p.origin)
	if err == nil && p.mirror != nil {
		var mirror string
		mirror, err = n.Mirror(p.mirror, "")
		hosts += mirror
	}
	if err == nil {
		err = n.WriteHosts(registry, hosts)
	}
	if err == nil && rules != "" {
		err = n.WriteRules("bench.toml", rules)
	}
	if err == nil {
		err = n.Run(ctx)
	}
	if err == nil {
		err = n.WaitForCRI(ctx)
	}
	if err != nil {
		log, _ := n.Log()
		return fmt.Errorf("%w\nthe end of its log:\n%s", err, daemon.Tail(log, 20))
	}
	return nil
}

// pull asks CRI for an image, as a kubelet does. It returns the image ID.
func (n *node) pull(ctx context.Context, ref string) (id string, err error) {
	resp, err := n.Images.PullImage(ctx, &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: ref},
		Auth:  &runtimeapi.AuthConfig{Username: user, Password: password},
		SandboxConfig: &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: "pod", Uid: "uid", Namespace: "default"},
		},
	})
	if err != nil {
		return "", fmt.Errorf("%s: pull %s: %w", n.side, ref, err)
	}
	if resp.GetImageRef() == "" {
		return "", fmt.Errorf("%s: pull %s: no image ID", n.side, ref)
	}
	return resp.GetImageRef(), nil
}

// pulls asks for several images, or for one several times, that many at a time.
func (n *node) pulls(ctx context.Context, atATime int, refs ...string) error {
	results := make(chan error)
	queue := make(chan string)
	for range atATime {
		go func() {
			for ref := range queue {
				_, err := n.pull(ctx, ref)
				results <- err
			}
		}()
	}
	go func() {
		defer close(queue)
		for _, ref := range refs {
			queue <- ref
		}
	}()
	var errs []error
	for range refs {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

// forget removes an image, and waits until its content is gone as well.
func (n *node) forget(ctx context.Context, ref string) error {
	_, err := n.Images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		return fmt.Errorf("%s: remove %s: %w", n.side, ref, err)
	}
	return n.Until(ctx, "the content of "+ref+" is gone", func(ctx context.Context) error {
		left := 0
		err := n.Client.ContentStore().Walk(ctx, func(content.Info) error { left++; return nil })
		if err == nil && left > 0 {
			err = fmt.Errorf("%d blobs are left: %w", left, errdefs.ErrAlreadyExists)
		}
		return err
	})
}

// mark is the size of the log.
func (n *node) mark() (int64, error) {
	info, err := os.Stat(n.LogFile())
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// decisions returns how long pullwarden says that each of its decisions with
// that outcome took, since the mark.
func (n *node) decisions(mark int64, outcome string) ([]time.Duration, error) {
	log, err := n.Log()
	if err != nil {
		return nil, err
	}
	var all []time.Duration
	for l := range strings.Lines(log[mark:]) {
		var entry struct {
			Outcome, Elapsed string
		}
		if err := json.Unmarshal([]byte(l), &entry); err != nil || entry.Outcome != outcome {
			continue // not every line of a daemon is JSON
		}
		d, err := time.ParseDuration(entry.Elapsed)
		if err != nil {
			return nil, fmt.Errorf("the log says that a decision took %q: %w", entry.Elapsed, err)
		}
		all = append(all, d)
	}
	return all, nil
}
