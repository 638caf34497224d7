// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	transferimage "github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/containerd/platforms"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// pullOption changes a PullImage request of a kubelet.
type pullOption func(*runtimeapi.PullImageRequest)

// annotations sets pod annotations: key, value, key, value, …
func annotations(pairs ...string) pullOption {
	return func(r *runtimeapi.PullImageRequest) {
		for i := 0; i+1 < len(pairs); i += 2 {
			r.Image.Annotations[pairs[i]] = pairs[i+1]
			r.SandboxConfig.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

// hint sets annotations under pullwarden's prefix: policy, Always, …
func hint(pairs ...string) pullOption {
	full := make([]string, len(pairs))
	for i, s := range pairs {
		if full[i] = s; i%2 == 0 {
			full[i] = "pullwarden.io/" + s
		}
	}
	return annotations(full...)
}

// credentials sets what the kubelet takes from a pull secret.
func credentials(user, password string) pullOption {
	return func(r *runtimeapi.PullImageRequest) {
		r.Auth = &runtimeapi.AuthConfig{Username: user, Password: password}
	}
}

// podNamespace sets the namespace of the pod.
func podNamespace(ns string) pullOption {
	return func(r *runtimeapi.PullImageRequest) { r.SandboxConfig.Metadata.Namespace = ns }
}

// runtimeHandler sets the runtime handler of the pod.
func runtimeHandler(name string) pullOption {
	return func(r *runtimeapi.PullImageRequest) { r.Image.RuntimeHandler = name }
}

// pull asks CRI for the image, as a kubelet does. It returns the image ID.
func (d *daemon) pull(ref string, opts ...pullOption) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.t.Context()), pullLimit)
	defer cancel()
	return d.pullContext(ctx, ref, opts...)
}

func (d *daemon) pullContext(ctx context.Context, ref string, opts ...pullOption) (string, error) {
	req := &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: ref, Annotations: map[string]string{}},
		SandboxConfig: &runtimeapi.PodSandboxConfig{
			Metadata:    &runtimeapi.PodSandboxMetadata{Name: "pod", Uid: "uid", Namespace: "default"},
			Annotations: map[string]string{},
		},
	}
	for _, opt := range opts {
		opt(req)
	}
	resp, err := d.images.PullImage(ctx, req)
	return resp.GetImageRef(), err
}

// transfer pulls as ctr does, past CRI.
func (d *daemon) transfer(ctx context.Context, ref string) error {
	source, err := registry.NewOCIRegistry(ctx, ref, registry.WithHostDir(d.hostsDirs()[0]))
	if err != nil {
		return err
	}
	return d.client.Transfer(ctx, source, transferimage.NewStore(ref, transferimage.WithUnpack(platforms.DefaultSpec(), "overlayfs")))
}

// mustPull pulls, and ends the test on an error.
func (d *daemon) mustPull(ref string, opts ...pullOption) string {
	d.t.Helper()
	id, err := d.pull(ref, opts...)
	if err != nil {
		d.fatal("pull %s: %v", ref, err)
	}
	return id
}

// mustFail pulls, ends the test if that works, and wants each of the words in
// the error's message.
func (d *daemon) mustFail(ref string, words []string, opts ...pullOption) error {
	d.t.Helper()
	id, err := d.pull(ref, opts...)
	if err == nil {
		d.fatal("pull %s gives %s, want an error", ref, id)
	}
	wantWords(d.t, err, words...)
	return err
}

// imageStatus returns what CRI says of an image, with verbose information.
func (d *daemon) imageStatus(ref string) *runtimeapi.ImageStatusResponse {
	d.t.Helper()
	resp, err := d.images.ImageStatus(d.t.Context(), &runtimeapi.ImageStatusRequest{
		Image: &runtimeapi.ImageSpec{Image: ref}, Verbose: true,
	})
	if err != nil {
		d.fatal("status of %s: %v", ref, err)
	}
	return resp
}

// remove removes an image through CRI.
func (d *daemon) remove(ref string) {
	d.t.Helper()
	_, err := d.images.RemoveImage(d.t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		d.fatal("remove %s: %v", ref, err)
	}
}

func wantWords(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in the error: %v", word, err)
		}
	}
}

func wantNot(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if strings.Contains(err.Error(), word) {
			t.Errorf("%q is in the error: %v", word, err)
		}
	}
}

// registryUnavailable reports whether the kubelet turns the error into its own
// reason.
func registryUnavailable(err error) bool {
	s, _ := status.FromError(err)
	return s.Code() == codes.Unknown && strings.HasPrefix(s.Message(), "RegistryUnavailable")
}

// eventually polls ok until it holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(errors.New("never: " + what))
		}
	}
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
