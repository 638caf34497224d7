// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/base64"
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestCredentialsFor(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for _, tc := range []struct {
		what             string
		auth             *runtime.AuthConfig
		username, secret string
	}{
		{"none", nil, "", ""},
		{"empty", &runtime.AuthConfig{}, "", ""},
		{"user and password", &runtime.AuthConfig{Username: "u", Password: "p"}, "u", "p"},
		{"this host", &runtime.AuthConfig{Username: "u", Password: "p", ServerAddress: "https://registry.test:5000/v2/"}, "u", "p"},
		{"this host, spelled in another way", &runtime.AuthConfig{Username: "u", Password: "p", ServerAddress: "https://Registry.test:05000"}, "u", "p"},
		{"this host at another port", &runtime.AuthConfig{Username: "u", Password: "p", ServerAddress: "https://registry.test:443"}, "", ""},
		{"another host", &runtime.AuthConfig{Username: "u", Password: "p", ServerAddress: "https://other.test"}, "", ""},
		{"identity token", &runtime.AuthConfig{IdentityToken: "t"}, "", "t"},
		{"combined", &runtime.AuthConfig{Auth: b64([]byte("u:p:with colon"))}, "u", "p:with colon"},
		{"combined with padding", &runtime.AuthConfig{Auth: b64([]byte("u:p\x00\x00"))}, "u", "p"},
		{"user before token", &runtime.AuthConfig{Username: "u", Password: "p", IdentityToken: "t"}, "u", "p"},
		{"registry token alone", &runtime.AuthConfig{RegistryToken: "t"}, "", ""},
	} {
		username, secret, err := credentialsFor(tc.auth, "registry.test:5000")
		if err != nil || username != tc.username || secret != tc.secret {
			t.Errorf("%s: got %q, %q, %v", tc.what, username, secret, err)
		}
	}
}

// Credentials are for the registry of their server address, which hosts are asked as by its
// one name, and for no other.
func TestServerAddressOfSpellings(t *testing.T) {
	for _, tc := range []struct {
		address, host string
		want          bool
	}{
		{"https://index.docker.io/v1/", "registry-1.docker.io", true},
		{"https://registry-1.docker.io:443", "registry-1.docker.io", true},
		{"https://registry.test:443", "registry.test", true},
		{"https://registry.test", "registry.test:443", true},
		{"https://registry.test:443", "registry.test:5000", false},
		{"http://registry.test", "registry.test", true},
		{"http://Registry.test:05000", "registry.test:5000", true},
		{"http://registry.test:443", "registry.test", false},
		{"http://index.docker.io", "registry-1.docker.io", false},
		{"https://localhost:443", "localhost", false},
		{"https://[::1]", "[::1]:443", false},
		{"https://[::1]:443", "[::1]", false},
		{"https://docker.io.evil.test", "registry-1.docker.io", false},
	} {
		username, _, err := credentialsFor(&runtime.AuthConfig{Username: "u", Password: "p", ServerAddress: tc.address}, tc.host)
		if err != nil || (username != "") != tc.want {
			t.Errorf("%s for %s: %v, %v", tc.address, tc.host, !tc.want, err)
		}
	}
}

func TestBadCredentialsAreNotRepeated(t *testing.T) {
	for _, auth := range []string{"hunter2 is not base64", base64.StdEncoding.EncodeToString([]byte("hunter2"))} {
		_, _, err := credentialsFor(&runtime.AuthConfig{Auth: auth}, "registry.test")
		if err == nil {
			t.Fatalf("%q was accepted", auth)
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), auth) {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

func TestLongCredentials(t *testing.T) {
	long := strings.Repeat("hunter2 ", maxCredentials/8)
	for what, auth := range map[string]*runtime.AuthConfig{
		"password":       {Username: "u", Password: long},
		"user name":      {Username: long, Password: "p"},
		"identity token": {IdentityToken: long + "!"},
		"combined":       {Auth: base64.StdEncoding.EncodeToString([]byte("u:" + long))},
	} {
		username, secret, err := credentialsFor(auth, "registry.test")
		if err == nil || username != "" || secret != "" {
			t.Fatalf("%s: accepted", what)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells the secret: %v", what, err)
		}
	}
	if _, secret, err := credentialsFor(&runtime.AuthConfig{IdentityToken: long}, "registry.test"); err != nil || secret != long {
		t.Errorf("as long as they may be: %v", err)
	}
}
