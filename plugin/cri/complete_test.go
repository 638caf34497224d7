// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/plugin/isolation"
	"github.com/pullwarden/pullwarden/store"
)

// TestScopeOfComplete holds that the images of a repository and caller take turns when they are
// completed, and those of others have a scope of their own.
func TestScopeOfComplete(t *testing.T) {
	s := &sandboxed{}
	service := NewImageService(&s.images, nil, nil, Config{}, &store.Key{}, s)
	scope := func(image string, auth *runtime.AuthConfig) isolation.Scope {
		t.Helper()
		_, n, err := service.request(&runtime.PullImageRequest{Image: &runtime.ImageSpec{Image: image}, Auth: auth})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Complete(t.Context(), ocispec.Descriptor{Digest: first}, nil); err != nil {
			t.Fatal(err)
		}
		return s.pulled.Scope
	}
	alice := &runtime.AuthConfig{Username: "alice", Password: "secret"}
	base := scope("r.test/app:1", alice)
	if got := scope("R.test:443/app@"+first.String(), alice); got != base {
		t.Errorf("another image of the repository: %v, want %v", got, base)
	}
	seen := map[isolation.Scope]string{{}: "pulls without a scope", base: "r.test/app"}
	for _, other := range []struct {
		what, image string
		auth        *runtime.AuthConfig
	}{
		{"another repository", "r.test/other:1", alice},
		{"another registry", "other.test/app:1", alice},
		{"another caller", "r.test/app:1", &runtime.AuthConfig{Username: "eve", Password: "secret"}},
		{"no credentials", "r.test/app:1", &runtime.AuthConfig{}},
		{"a caller that is not known", "r.test/app:1", &runtime.AuthConfig{Auth: "no base64"}},
		{"such a caller again", "r.test/app:1", &runtime.AuthConfig{Auth: "no base64"}},
		{"credentials for one host", "r.test/app:1", &runtime.AuthConfig{Username: "alice", Password: "secret", ServerAddress: "r.test"}},
	} {
		got := scope(other.image, other.auth)
		if with, shared := seen[got]; shared {
			t.Errorf("%s shares its scope with %s", other.what, with)
		}
		seen[got] = other.what
	}
}
