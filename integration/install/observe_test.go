// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unpack puts the tarball of a release into a folder of the host.
func (h *host) unpack(release string) (folder string) {
	h.t.Helper()
	folder = "/root/" + release
	h.check(os.MkdirAll(h.root+folder, 0o755))
	out, err := exec.CommandContext(h.t.Context(), "tar", "--extract", "--gunzip", "--file", made(h.t, release, "pullwarden-2.4-*-amd64.tar.gz"),
		"--directory", h.root+folder, "--strip-components=1").CombinedOutput()
	if err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	return folder
}

// broken makes a release whose daemon says its version, and else does this.
func (h *host) broken(name, does string) (folder string) {
	h.t.Helper()
	folder = "/root/" + name
	h.write(folder+"/containerd", "#!/bin/sh\n[ \"$1\" != --version ] || exec echo containerd x v2.4.9+pullwarden."+name+"\n"+does+"\n")
	h.write(folder+"/pullwarden", "")
	return folder
}

// serves returns the version of the daemon that answers.
func (h *host) serves() string {
	h.t.Helper()
	out := h.must("ctr", "version")
	_, server, _ := strings.Cut(out, "Server:")
	for line := range strings.Lines(server) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "Version:"); ok {
			return strings.TrimSpace(version)
		}
	}
	h.t.Fatalf("no version of a server:\n%s", out)
	return ""
}

// expect fails where another daemon answers, or the unit runs another program.
func (h *host) expect(version, program string) {
	h.t.Helper()
	if got := h.serves(); !strings.HasSuffix(got, version) || version == "v2.4.2" && got != version {
		h.t.Errorf("containerd %s answers, not %s", got, version)
	}
	if got := h.must("sh", "-c", "readlink /proc/$(systemctl show -P MainPID containerd)/exe"); got != program {
		h.t.Errorf("the unit runs %s, not %s", got, program)
	}
}

const (
	stockProgram = "/usr/bin/containerd"
	ourProgram   = "/usr/lib/pullwarden/containerd"
)

// spec is a container without cgroups, which are read-only on the host.
const spec = `{"ociVersion": "1.0.2", "root": {"path": "/root/fs"},
"process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "args": ["/busybox", "sleep", "1000000"]},
"mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
"linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}]}}`

// container starts one, and returns its process.
func (h *host) container() (pid string) {
	h.t.Helper()
	h.write("/root/spec.json", spec)
	h.must("ctr", "-n", "k8s.io", "run", "--runc-binary", "/root/runc", "--config", "/root/spec.json", "--detach", "c")
	return h.containerPID()
}

// containerPID returns the process of the container, as the daemon knows it: running.
func (h *host) containerPID() string {
	h.t.Helper()
	out := h.must("sh", "-c", "ctr -n k8s.io tasks ls 2>/dev/null")
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "c" && f[2] == "RUNNING" {
			h.must("test", "-d", "/proc/"+f[1])
			return f[1]
		}
	}
	h.t.Fatalf("the container does not run:\n%s", out)
	return ""
}

// files are those that an installation may change, by path, with their mode and digest.
func (h *host) files() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	for _, dir := range []string{"/usr/lib/pullwarden", "/var/lib/pullwarden", "/etc/systemd/system", "/etc/containerd", "/usr/bin/containerd"} {
		err := filepath.WalkDir(h.root+dir, func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			what := info.Mode().String()
			if info.Mode().IsRegular() {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				what += fmt.Sprintf(" %x", sha256.Sum256(data))
			}
			all[strings.TrimPrefix(path, h.root)] = what
			return nil
		})
		h.check(err)
	}
	return all
}

// outcome runs a verb for its JSON.
func (h *host) outcome(args ...string) (outcome string, refusals []string) {
	h.t.Helper()
	out, _ := h.run(append(args, "-o", "json")...)
	document := struct {
		Outcome  string
		Refusals []struct{ ID string }
	}{}
	if err := json.Unmarshal([]byte(out), &document); err != nil {
		h.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	for _, refusal := range document.Refusals {
		refusals = append(refusals, refusal.ID)
	}
	return document.Outcome, refusals
}
