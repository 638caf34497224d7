// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// A docker config has an empty entry for each registry whose credentials a helper keeps.
// No other configuration has a say: its credentials are not those of the file.
func TestDockerConfigWithAHelper(t *testing.T) {
	dir := t.TempDir()
	helper := "#!/bin/sh\nread host\necho '{\"ServerURL\":\"'$host'\",\"Username\":\"alice\",\"Secret\":\"of '$host'\"}'\n"
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-test"), []byte(helper), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DOCKER_AUTH_CONFIG", `{"auths": {"registry.test": {"auth": "Ym9iOmVudg=="}, "other.test": {"auth": "Ym9iOmVudg=="}}}`)
	const stored = `{"auths": {"registry.test": {}, "https://index.docker.io/v1/": {}}, "credsStore": "test"}`
	for _, tc := range []struct{ config, image, password string }{
		{stored, "registry.test/team/app:1", "of registry.test"},
		{stored, "nginx", "of " + dockerHub},
		{`{"auths": {"registry.test": {}}, "credHelpers": {"registry.test": "test"}}`, "registry.test/app", "of registry.test"},
		{`{"auths": {"registry.test/team": {"auth": "YWxpY2U6dGVhbQ=="}, "registry.test": {}}, "credsStore": "test"}`, "registry.test/team/app", "team"},
		{`{"auths": {"registry.test": {}}}`, "registry.test/app", ""},
		{`{"auths": {"registry.test": {}}}`, "other.test/app", ""},
	} {
		file := filepath.Join(dir, "config.json")
		if err := os.WriteFile(file, []byte(tc.config), 0o600); err != nil {
			t.Fatal(err)
		}
		auth, err := readDockerConfig(file, tc.image)
		switch {
		case tc.password == "" && err == nil:
			t.Errorf("%s: %s has credentials of %s", tc.config, tc.image, auth.Username)
		case tc.password != "" && (err != nil || auth.Username != "alice" || auth.Password != tc.password):
			t.Errorf("%s: %s has %+v, %v", tc.config, tc.image, auth, err)
		}
	}
}
