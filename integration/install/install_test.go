// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A node gets pullwarden, a newer one, the older one again and its own containerd back,
// under a container that runs all the time.
func TestLifecycle(t *testing.T) {
	h := boot(t, nil)
	before := h.files()
	older, newer := h.unpack("old"), h.unpack("new")
	pid := h.container()
	if out := h.must(older+"/pullwarden", "install"); !strings.Contains(out, "dry run") || len(h.files()) != len(before) {
		t.Errorf("the dry run has changed something:\n%s", out)
	}
	same := func() {
		t.Helper()
		if now := h.containerPID(); now != pid {
			t.Errorf("the container is process %s, not %s", now, pid)
		}
	}
	for _, step := range []struct{ version, program string }{
		{oldVersion, older + "/pullwarden"}, {newVersion, newer + "/pullwarden"}, {oldVersion, "/usr/lib/pullwarden/previous/pullwarden"},
	} {
		h.must(step.program, "install", "--yes")
		h.expect(step.version, ourProgram)
		same()
	}
	started := h.must("systemctl", "show", "-P", "MainPID", "containerd")
	if outcome, _ := h.outcome(older+"/pullwarden", "install", "--yes"); outcome != "nothing_to_do" || h.must("systemctl", "show", "-P", "MainPID", "containerd") != started {
		t.Errorf("the same again: %s", outcome)
	}
	// Stock containerd comes back with the section in its configuration.
	h.write("/etc/containerd/config.toml", "version = 3\n[plugins.\"io.containerd.image-policy.v1.pullwarden\"]\nenabled = true\n")
	h.must("systemctl", "restart", "containerd")
	h.until(func() string {
		if out, code := h.run(pullwarden, "status"); code != 0 {
			return out
		}
		return ""
	})
	h.must(pullwarden, "uninstall", "--yes")
	h.expect("v2.4.2", stockProgram)
	same()
	h.check(os.Remove(h.root + "/etc/containerd/config.toml"))
	delete(before, "/etc/containerd/config.toml")
	if diff := cmp.Diff(before, h.files()); diff != "" {
		t.Error(diff)
	}
}

// A daemon that exits, and one that never answers, leave the node as it was: stock, and
// with an older release.
func TestBrokenDaemon(t *testing.T) {
	h := boot(t, nil)
	exits := h.broken("exits", "echo last words >&2; exit 3")
	hangs := h.broken("hangs", "trap '' TERM; exec sleep infinity")
	older := h.unpack("old")
	pid := h.container()
	for _, running := range []struct{ version, program string }{{"v2.4.2", stockProgram}, {oldVersion, ourProgram}} {
		before := h.files()
		h.fails([]string{"Rolled back: containerd is as it was before.\n", "the daemon has exited", "last words"}, older+"/pullwarden", "install", "--from", exits, "--yes", "--timeout", "5m")
		h.fails([]string{"Rolled back: containerd is as it was before.\n", "not ready after 30s"}, older+"/pullwarden", "install", "--from", hangs, "--yes", "--timeout", "30s")
		h.expect(running.version, running.program)
		after := h.files()
		for path := range after { // the copy of what runs
			if strings.HasPrefix(path, "/usr/lib/pullwarden/previous") {
				delete(after, path)
			}
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Error(diff)
		}
		if h.containerPID() != pid {
			t.Error("the container is another one")
		}
		if running.program == stockProgram {
			h.must(older+"/pullwarden", "install", "--yes")
		}
	}
}

// A service that requires containerd, as the kubelet of some providers does, is stopped by
// systemd where containerd does not come up. It runs again once that is back.
func TestDependentService(t *testing.T) {
	h := boot(t, func(h *host) {
		h.write("/etc/systemd/system/needs.service", "[Unit]\nRequires=containerd.service\nAfter=containerd.service\n[Service]\nExecStart=sleep infinity\nRestart=always\n")
	})
	exits := h.broken("exits", "exit 3")
	older := h.unpack("old")
	h.must("systemctl", "start", "needs.service")
	h.fails([]string{"Rolled back: containerd is as it was before.\n"}, older+"/pullwarden", "install", "--from", exits, "--yes", "--timeout", "5m")
	h.until(func() string {
		if out, code := h.run("systemctl", "is-active", "needs.service"); code != 0 {
			return "needs.service is " + out
		}
		return ""
	})
	h.expect("v2.4.2", stockProgram)
}

// A run that is killed while its daemon does not answer is set right by the next install,
// and by uninstall.
func TestKilled(t *testing.T) {
	h := boot(t, nil)
	hangs := h.broken("hangs", "trap '' TERM; exec sleep infinity")
	older := h.unpack("old")
	before := h.files()
	for _, verb := range []string{"install", "uninstall"} {
		h.must("sh", "-c", older+"/pullwarden install --from "+hangs+" --yes --timeout 10m >/root/out 2>&1 & echo $! >/root/pid")
		h.until(func() string {
			if out, _ := h.run("sh", "-c", "tr '\\0' ' ' </proc/$(systemctl show -P MainPID containerd)/cmdline"); out != "sleep infinity" {
				return "the daemon has not begun to hang: " + out + h.must("cat", "/root/out")
			}
			return ""
		})
		h.must("sh", "-c", "kill -KILL $(cat /root/pid)")
		h.must(older+"/pullwarden", verb, "--yes", "--timeout", "5m")
		if verb == "install" {
			h.expect(oldVersion, ourProgram)
			h.must(older+"/pullwarden", "uninstall", "--yes")
		}
		h.expect("v2.4.2", stockProgram)
		if diff := cmp.Diff(before, h.files()); diff != "" {
			t.Errorf("%s after a kill:\n%s", verb, diff)
		}
	}
}

// A containerd elsewhere keeps its arguments, its configuration and its socket; and install
// works from outside, as a container calls it.
func TestUnusualNode(t *testing.T) {
	h := boot(t, func(h *host) {
		h.check(os.Rename(h.root+"/usr/bin/containerd", h.root+"/usr/local/bin/containerd"))
		h.write("/lib/systemd/system/containerd.service", "[Service]\nType=notify\nKillMode=process\nRestart=always\nEnvironment=WHERE=/opt/c.toml\n"+
			"ExecStart=/usr/local/bin/containerd \\\n  -c ${WHERE}\n[Install]\nWantedBy=multi-user.target\n")
		h.write("/etc/systemd/system/containerd.service.d/10-site.conf", "[Service]\nEnvironment=A=b\n")
		h.write("/opt/c.toml", "version = 3\n[grpc]\naddress = '/run/elsewhere/c.sock'\n")
	})
	older := h.unpack("old")
	root := "/proc/" + strconv.Itoa(h.leader) + "/root"
	out, code := h.output(h.outside(h.root+older+"/pullwarden", "install", "--root", root, "--yes"))
	if code != 0 || !strings.Contains(out, "/run/elsewhere/c.sock") {
		t.Fatalf("exit %d\n%s", code, out)
	}
	if out := h.must("sh", "-c", "tr '\\0' ' ' </proc/$(systemctl show -P MainPID containerd)/cmdline"); strings.TrimSpace(out) != ourProgram+" -c /opt/c.toml" {
		t.Errorf("it runs %s", out)
	}
	out, code = h.output(h.outside(h.root+older+"/pullwarden", "uninstall", "--root", root, "--yes"))
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, out)
	}
	if out := h.must("sh", "-c", "readlink /proc/$(systemctl show -P MainPID containerd)/exe; ls /etc/systemd/system/containerd.service.d"); out != "/usr/local/bin/containerd\n10-site.conf" {
		t.Errorf("it runs %s", out)
	}
}

// Nodes on which nothing may be changed stay as they are.
func TestRefusals(t *testing.T) {
	h := boot(t, nil)
	older := h.unpack("old")
	before := h.files()
	for _, test := range []struct{ id, path, text string }{
		{"foreign_drop_in", "/etc/systemd/system/containerd.service.d/90-proxy.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/containerd -l debug\n"},
		{"configuration", "/etc/containerd/config.toml", "version = 3\n[plugins.\"io.containerd.image-policy.v1.pullwarden\"]\nenabled = true\ndefault_policy = \"Sometimes\"\n"},
		{"not_a_file", "/etc/systemd/system/containerd.service.d", "not a directory"},
		{"not_a_file", "/usr/lib/pullwarden/containerd/x", "not a file"},
	} {
		h.write(test.path, test.text)
		outcome, refusals := h.outcome(older+"/pullwarden", "install", "--yes")
		if outcome != "refused" || !slices.Contains(refusals, test.id) {
			t.Errorf("%s: %s %v", test.path, outcome, refusals)
		}
		h.must("rm", "-r", test.path)
		h.must("sh", "-c", "rmdir -p /usr/lib/pullwarden/containerd /etc/systemd/system/containerd.service.d 2>/dev/null || true")
	}
	delete(before, "/etc/containerd/config.toml")
	if diff := cmp.Diff(before, h.files()); diff != "" {
		t.Error(diff)
	}
	h.expect("v2.4.2", stockProgram)
}

// Debian's own containerd is of another minor.
func TestDebiansOwn(t *testing.T) {
	h := boot(t, func(h *host) {
		for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
			h.copy(made(t, "debian", "usr/bin", name), "/usr/bin/"+name)
		}
	})
	older := h.unpack("old")
	before := h.files()
	h.fails([]string{"Refused: nothing has been changed.", "the node has containerd 1.6.", "this is built with v2.4."}, older+"/pullwarden", "install", "--yes")
	if diff := cmp.Diff(before, h.files()); diff != "" {
		t.Error(diff)
	}
}

// A disk that is full in the middle leaves the node as it was, and the daemon is the same
// process.
func TestFullDisk(t *testing.T) {
	h := boot(t, func(h *host) { h.check(os.MkdirAll(h.root+"/usr/lib/pullwarden", 0o755)) })
	older := h.unpack("old")
	h.must("mount", "-t", "tmpfs", "-o", "size=50m,mode=755", "tmpfs", "/usr/lib/pullwarden") // for one of both binaries
	before, daemon := h.files(), h.must("systemctl", "show", "-P", "MainPID", "containerd")
	h.fails([]string{"Rolled back", "no space left on device"}, older+"/pullwarden", "install", "--yes")
	if left := h.must("ls", "-A", "/usr/lib/pullwarden"); left != "" || h.must("systemctl", "show", "-P", "MainPID", "containerd") != daemon {
		t.Errorf("it leaves %s", left)
	}
	if diff := cmp.Diff(before, h.files()); diff != "" {
		t.Error(diff)
	}
}
