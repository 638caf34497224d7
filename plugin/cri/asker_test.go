// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/store"
)

// Who sends no credentials is everybody, be it by those of registry.configs that hosts are shown; a request with
// empty ones, or with its own, is shown to nobody as the node's.
func TestWhoseCredentialsAreShown(t *testing.T) {
	of := func(configured map[string]*runtime.AuthConfig, auth *runtime.AuthConfig) engine.Request {
		s := NewImageService(&images{}, nil, nil, nil, Config{Auths: configured}, &store.Key{}, &sandboxed{})
		req, err := s.PodRequest(&runtime.PullImageRequest{Image: &runtime.ImageSpec{Image: "registry.test/app:1"}, Auth: auth})
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	node := &runtime.AuthConfig{Username: "node", Password: "word of the node"}
	mirrors := map[string]*runtime.AuthConfig{"mirror.test": node}
	seen := map[store.Fingerprint]string{}
	for what, configured := range map[string]map[string]*runtime.AuthConfig{
		"of a mirror":       mirrors,
		"of the registry":   {"registry.test": node},
		"of both":           {"mirror.test": node, "registry.test": node},
		"another password":  {"mirror.test": {Username: "node", Password: "another word"}},
		"an identity token": {"mirror.test": {IdentityToken: "node"}},
		"parted elsewhere":  {"mirror.test": {Username: "nodeword", Password: " of the node"}},
	} {
		req := of(configured, nil)
		if other := seen[req.NodeCredentials]; req.NodeCredentials == "" || other != "" || req.NodeCredentials != of(configured, nil).NodeCredentials {
			t.Errorf("%s: %q, that of %q", what, req.NodeCredentials, other)
		}
		seen[req.NodeCredentials] = what
		if req.Caller != store.Anonymous {
			t.Errorf("%s: the caller is %s", what, req.Caller)
		}
	}
	if req := of(mirrors, &runtime.AuthConfig{}); req.NodeCredentials != "" || req.Caller != store.Anonymous {
		t.Errorf("empty credentials: %q, %s", req.NodeCredentials, req.Caller)
	}
	if req := of(mirrors, node); req.NodeCredentials != "" || req.Caller == store.Anonymous {
		t.Errorf("the caller's own: %q, %s", req.NodeCredentials, req.Caller)
	}
	if req := of(nil, nil); req.NodeCredentials != "" || req.Credentials != nil {
		t.Errorf("none are configured: %q", req.NodeCredentials)
	}
}
