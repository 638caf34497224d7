// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BuildKit's own parser and rules find no mistake in the Dockerfiles, and the only step that
// runs a program is the one that TestKindImage runs.
func TestDockerfiles(t *testing.T) {
	lint := built(t, toolsEnv, "dockerlint")
	for file, want := range map[string]string{"kind": "RUN /bin/bash /usr/lib/pullwarden/enable\n", "image": ""} {
		out, err := exec.Command(lint, "../../deploy/"+file+"/Dockerfile").CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("%s: %v, %s", file, err, out)
		}
	}
	broken := filepath.Join(t.TempDir(), "Dockerfile")
	write(t, broken, "from scratch\nCOPI a b\n")
	if out, err := exec.Command(lint, broken).CombinedOutput(); err == nil || !strings.Contains(string(out), "COPI") {
		t.Errorf("%v, %s", err, out)
	}
}

// nodeImage is a root like that of a node image of kind, after the COPY steps.
func nodeImage(t *testing.T, theirs, ours string) (root string) {
	root = t.TempDir()
	for _, dir := range []string{"usr/local/bin", "usr/lib/pullwarden", "etc/containerd", "etc/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, version := range map[string]string{"usr/local/bin/containerd": theirs, "usr/lib/pullwarden/containerd": ours} {
		script := "#!/bin/sh\necho containerd github.com/containerd/containerd/v2 " + version + " 193637f7ee8ae5f5aa5248f49e7baa3e6164966e\n"
		if err := os.WriteFile(filepath.Join(root, path), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	pullwarden, err := os.ReadFile(built(t, binEnv, "pullwarden"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/lib/pullwarden/pullwarden"), pullwarden, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(root, "etc/containerd/pullwarden.d"), os.DirFS("../../deploy/kind/rules")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "etc/containerd/config.toml"), "version = 2\n\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  snapshotter = \"overlayfs\"\n")
	write(t, filepath.Join(root, "etc/systemd/system/containerd.service"), "[Service]\nExecStartPre=-/sbin/modprobe overlay\nExecStart=/usr/local/bin/containerd --log-level debug\nKillMode=process\n")
	return root
}

// enable runs the RUN step of the node image in a root.
func enable(t *testing.T, root string) (string, error) {
	t.Helper()
	cmd := exec.Command("/bin/bash", "../../deploy/kind/enable")
	cmd.Env = []string{"ROOT=" + root, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestKindImage(t *testing.T) {
	root := nodeImage(t, "v2.4.1", "v2.4.2+pullwarden.v1.0.0")
	for range 2 { // a second time it finds all done
		if out, err := enable(t, root); err != nil {
			t.Fatalf("%v, %s", err, out)
		}
	}
	unit, err := os.ReadFile(filepath.Join(root, "etc/systemd/system/containerd.service.d/50-pullwarden.conf"))
	if want := "[Service]\nExecStart=\nExecStart=/usr/lib/pullwarden/containerd --log-level debug\n"; err != nil || string(unit) != want {
		t.Errorf("%s, %v", unit, err)
	}
	config, err := os.ReadFile(filepath.Join(root, "etc/containerd/config.toml"))
	if err != nil || strings.Count(string(config), "image-policy.v1.pullwarden") != 1 || !strings.Contains(string(config), "snapshotter") {
		t.Errorf("%s, %v", config, err)
	}
}

func TestKindImageRefused(t *testing.T) {
	for name, test := range map[string]struct {
		theirs string
		change func(root string) error
		want   string
	}{
		"another minor": {"v2.3.7", nil, "the node image has containerd 2.3, and this is 2.4: build it with CONTAINERD=2.3"},
		"no version":    {"unknown", nil, "containerd of no version that is known"},
		"no unit": {"v2.4.2", func(root string) error {
			return os.Remove(filepath.Join(root, "etc/systemd/system/containerd.service"))
		}, "no containerd.service"},
		"a section with a mistake": {"v2.4.2", func(root string) error {
			return os.WriteFile(filepath.Join(root, "etc/containerd/config.toml"), []byte("version = 3\n[plugins.'io.containerd.image-policy.v1.pullwarden']\npolcy = 1\n"), 0o600)
		}, "polcy"},
	} {
		root := nodeImage(t, test.theirs, "v2.4.2+pullwarden.v1.0.0")
		if test.change != nil {
			if err := test.change(root); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := enable(t, root); err == nil || !strings.Contains(out, test.want) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
		if _, err := os.Stat(filepath.Join(root, "etc/systemd/system/containerd.service.d")); err == nil {
			t.Errorf("%s: containerd is exchanged", name)
		}
	}
}
