// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"testing"
)

// An operator who has followed PW0304 by half: with that, containerd says "`mirrors` cannot be set when `config_path` is
// provided", and CRI does not start.
func TestMirrorsBesideConfigPath(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.toml")
	const text = `version = 3
[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.images".registry.mirrors."docker.io"]
endpoint = ["https://mirror.example.com"]
[plugins."io.containerd.image-policy.v1.pullwarden"]
enabled = true
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	report := Node(file, true)
	if report.Count(Error) == 0 {
		t.Errorf("CRI would not start, and there is no error: %+v", report.Findings)
	}
}
