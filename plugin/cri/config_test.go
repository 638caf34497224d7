// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/plugin/registry"
	"github.com/pelletier/go-toml/v2"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	// The configuration is read from CRI's own plugins.
	_ "github.com/containerd/containerd/v2/plugins/cri/images"
)

// pluginConfig is a plugin's default configuration with the operator's over it.
func pluginConfig(t *testing.T, id, written string) any {
	t.Helper()
	for _, r := range registry.Graph(nil) {
		if r.Type == plugins.CRIServicePlugin && r.ID == id {
			if err := toml.Unmarshal([]byte(written), r.Config); err != nil {
				t.Fatal(err)
			}
			return r.Config
		}
	}
	t.Fatalf("containerd has no CRI plugin %q", id)
	return nil
}

func TestReadConfig(t *testing.T) {
	images := pluginConfig(t, "images", `
[registry]
  config_path = "/etc/a:/etc/b"
  [registry.headers]
    X-Team = ["a", "b"]
  [registry.mirrors."docker.io"]
    endpoint = ["https://mirror.test"]
  [registry.configs."mirror.test".auth]
    username = "u"
    password = "p"
`)
	c, err := ReadConfig(images)
	if err != nil {
		t.Fatal(err)
	}
	if c.ConfigPath != "/etc/a:/etc/b" || len(c.Headers["X-Team"]) != 2 {
		t.Errorf("%+v", c)
	}
	if got := c.Mirrors["docker.io"]; len(got) != 1 || got[0] != "https://mirror.test" {
		t.Errorf("mirrors %v", got)
	}
	if a := c.auth("mirror.test"); a.GetUsername() != "u" || a.GetPassword() != "p" {
		t.Errorf("auth of the mirror is not read")
	}
	if a := c.auth("docker.io"); a != nil {
		t.Errorf("auth where there is none: %v", a)
	}
}

// Credentials of a registry are found by each spelling of its name; those of the very one come
// first. No others get them.
func TestAuthOfSpellings(t *testing.T) {
	c := Config{Auths: map[string]*runtime.AuthConfig{}}
	for _, name := range []string{
		"registry.test:443", "Both.test", "both.test:443", "Upper.test:5000", "127.0.0.1:0443", "localhost:443", "index.docker.io",
	} {
		c.Auths[name] = &runtime.AuthConfig{Username: name, Password: "p"}
	}
	for host, want := range map[string]string{
		"registry.test": "registry.test:443", "registry.test:80": "", "other.test": "",
		"both.test": "Both.test", "both.test:443": "both.test:443", "Both.test": "Both.test",
		"upper.test:5000": "Upper.test:5000", "upper.test": "",
		"127.0.0.1:443": "127.0.0.1:0443", "127.0.0.1": "", "localhost": "", "localhost:443": "localhost:443",
		"registry-1.docker.io": "index.docker.io",
	} {
		if got, _, err := c.credentials(nil)(host); got != want || err != nil {
			t.Errorf("%s has those of %q, want %q; %v", host, got, want, err)
		}
	}
}

func TestRuntimeHandler(t *testing.T) {
	pod := &runtime.PodSandboxConfig{}
	annotated := &runtime.PodSandboxConfig{Annotations: map[string]string{runtimeHandlerAnnotation: "blocky"}}
	for _, tc := range []struct {
		what, handler string
		sandbox       *runtime.PodSandboxConfig
		want          string
	}{
		{"no handler", "", pod, ""},
		{"handler", "other", pod, "other"},
		{"without a sandbox containerd has the default", "other", nil, ""},
		{"annotation", "", annotated, "blocky"},
		{"handler before annotation", "other", annotated, "other"},
	} {
		r := &runtime.PullImageRequest{Image: &runtime.ImageSpec{RuntimeHandler: tc.handler}, SandboxConfig: tc.sandbox}
		if got := runtimeHandler(r); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.what, got, tc.want)
		}
	}
}

func TestMirrorHosts(t *testing.T) {
	c := Config{Mirrors: map[string][]string{
		"registry.test":    {"https://mirror.test/v2/cache", "plain.test:5000"},
		"self.test":        {"http://self.test", "https://after.test"},
		"127.0.0.1:5000":   {"127.0.0.1:5001"},
		"malformed.test":   {"https://a b"},
		"docker.io":        nil,
		"*":                {"https://any.test"},
		"unused.test:5000": nil,
	}}
	for registry, want := range map[string][]string{
		"registry.test":  {"https://mirror.test/v2/cache", "https://plain.test:5000/v2", "https://registry.test/v2"},
		"self.test":      {"http://self.test/v2", "https://after.test/v2"},
		"127.0.0.1:5000": {"http://127.0.0.1:5001/v2", "http://127.0.0.1:5000/v2"},
		"docker.io":      {"https://registry-1.docker.io/v2"},
		"unknown.test":   {"https://any.test/v2", "https://unknown.test/v2"},
	} {
		hosts, err := c.MirrorHosts(t.Context(), nil, nil)(registry)
		if err != nil {
			t.Errorf("%s: %v", registry, err)
			continue
		}
		var got []string
		for _, h := range hosts {
			got = append(got, h.Scheme+"://"+h.Host+h.Path)
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %v, want %v", registry, got, want)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: got %v, want %v", registry, got, want)
			}
		}
	}
	for registry, want := range map[string]bool{"registry.test": true, "docker.io": true, "Registry.test": false, "unknown.test": false} {
		if c.HasMirrors(registry) != want {
			t.Errorf("%s: it has mirrors of its own: %v", registry, !want)
		}
	}
	if _, err := c.MirrorHosts(t.Context(), nil, nil)("malformed.test"); err == nil {
		t.Error("a malformed endpoint was accepted")
	}
}
