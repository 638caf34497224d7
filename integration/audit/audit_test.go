// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// line is what a reader of the log makes of a line.
type line struct {
	Time                                                   time.Time
	Namespace, Pod, Image, Policy, DecidedBy               string
	Outcome, Reason, Class, Source, Before, Digest, Caller string
	ElapsedMs                                              float64
	Error                                                  string
	Observed                                               bool
	StockPull                                              string
}

// lines reads a log. Each of its lines must be whole.
func lines(t *testing.T, path string) (all []line) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 0 && !strings.HasSuffix(string(data), "\n") {
		t.Errorf("the log ends in the middle of a line: %q", data)
	}
	for text := range strings.Lines(string(data)) {
		var l line
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&l); err != nil {
			t.Errorf("%v in %q", err, text)
		}
		all = append(all, l)
	}
	return all
}

// eventually returns the lines once there are so many. One that is being written is waited for: the kernel shows a write
// page by page.
func eventually(t *testing.T, path string, n int) (all []line) {
	t.Helper()
	nodetest.Eventually(t, "the lines are written", func() bool {
		if data, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(data), "\n") {
			return false
		}
		all = lines(t, path)
		return len(all) >= n
	})
	nodetest.Want(t, "lines", len(all), n)
	return all
}

// TestAuditLine has a line for each decision, with all that it was made of.
func TestAuditLine(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.AuditLog("audit.log"))
	first := n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	began := time.Now()
	n.MustPull(ref, node.Pod("team-a", "web-0"))
	second := n.Push("app:1", nodetest.Image(2))
	n.MustPull(ref, node.Pod("team-a", "web-1"), node.Hint("policy", "Always"))
	n.Registry.Status(resolvertest.All, http.StatusServiceUnavailable)
	n.MustPull(ref, node.Pod("team-b", "web-2"))
	err := n.MustFail(ref, []string{"503"}, node.Pod("team-b", "web-3"), node.Hint("policy", "Always"))

	all := eventually(t, n.Path("audit.log"), 4)
	source := n.Registry.Host() + "/app:1"
	want := []line{
		{Namespace: "team-a", Pod: "web-0", Policy: "IfDigestChanged", Outcome: "Pulled", Reason: "absent", Source: source, Digest: first.String()},
		{Namespace: "team-a", Pod: "web-1", Policy: "Always", Outcome: "Pulled", Reason: "changed", Source: source, Before: first.String(), Digest: second.String()},
		{Namespace: "team-b", Pod: "web-2", Policy: "IfDigestChanged", Outcome: "UsedCached", Reason: "unavailable", Class: "unavailable", Source: source, Before: second.String(), Digest: second.String()},
		{Namespace: "team-b", Pod: "web-3", Policy: "Always", Outcome: "Failed", Reason: "unavailable", Class: "unavailable", Before: second.String()},
	}
	for i, l := range all {
		want[i].Image, want[i].Caller = ref, "anonymous"
		if !strings.HasPrefix(l.DecidedBy, "policy="+l.Policy+"(") || l.ElapsedMs <= 0 || l.Time.Before(began.Truncate(time.Second)) || l.Time.Location() != time.UTC {
			t.Errorf("%+v", l)
		}
		if (l.Error != "") != (l.Outcome == "Failed") || l.Error != "" && !strings.Contains(err.Error(), l.Error) {
			t.Errorf("the kubelet got %v, the log has %q", err, l.Error)
		}
	}
	if diff := cmp.Diff(want, all, cmpopts.IgnoreFields(line{}, "Time", "DecidedBy", "ElapsedMs", "Error")); diff != "" {
		t.Error(diff)
	}
	info, statErr := os.Stat(n.Path("audit.log"))
	n.Must(statErr)
	nodetest.Want(t, "mode", info.Mode(), os.FileMode(0o600))
}

// TestAuditOfObservedPulls tells pods that Enforce would stop from those that containerd's
// own pull fails, too.
func TestAuditOfObservedPulls(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `mode = "Observe"`), nodetest.AuditLog("audit.log"))
	n.Push("app:1", nodetest.Image(1))
	written := 0
	told := func(pull func()) (last line) {
		t.Helper()
		for last.Outcome == "" || last.Reason == "slow" { // the machine was too busy
			pull()
			written++
			last = eventually(t, n.Path("audit.log"), written)[written-1]
		}
		return last
	}
	stopped := told(func() { n.MustPull(nodetest.Named("app:1"), node.Hint("polcy", "Always")) })
	absent := told(func() { n.MustFail(nodetest.Named("none:1"), nil) })
	if !stopped.Observed || stopped.Reason != "bad_hint" || stopped.StockPull != "succeeded" {
		t.Errorf("a pod that Enforce would stop: %+v", stopped)
	}
	if !absent.Observed || absent.Reason != "not_found" || absent.StockPull != "failed" {
		t.Errorf("an image that is nowhere: %+v", absent)
	}
}

// TestAuditRotation goes on in a new file once the old one has been renamed, also after
// a restart, and leaves no line out.
func TestAuditRotation(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.AuditLog("audit.log"))
	n.Push("app:1", nodetest.Image(1))
	path := n.Path("audit.log")
	n.MustPull(nodetest.Named("app:1"))
	eventually(t, path, 1)
	n.Must(os.Rename(path, path+".1"))
	n.MustPull(nodetest.Named("app:1"))
	eventually(t, path, 1)
	n.Restart()
	n.MustPull(nodetest.Named("app:1"))
	eventually(t, path, 2)
	nodetest.Want(t, "lines in the old file", len(lines(t, path+".1")), 1)
}

// TestAuditOnAFullDisk loses lines, counts them, and lets every pull go on; when there
// is space again, whole lines follow.
func TestAuditOnAFullDisk(t *testing.T) {
	t.Parallel()
	metrics := nodetest.FreeAddress(t)
	n := nodetest.Prepare(t, nodetest.AuditLog("small", "audit.log"), nodetest.MetricsAt(metrics)).With(resolvertest.New(t))
	dir, filler := n.Path("small"), n.Path("small", "filler")
	n.Must(os.Mkdir(dir, 0o700))
	n.Must(unix.Mount("pullwarden-test", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	n.Start()
	n.Serve("registry.test", n.Registry)
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	path := n.Path("small", "audit.log")
	eventually(t, path, 1)

	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	lost := func() bool { return !strings.Contains(n.Scrape(metrics), "\npullwarden_audit_lost_total 0\n") }
	pulls := 1
	nodetest.Eventually(t, "a line is lost", func() bool {
		n.MustPull(ref) // the last page of the file may have space left
		pulls++
		return lost()
	})
	nodetest.Eventually(t, "each line is written or lost", func() bool {
		data, err := os.ReadFile(path)
		n.Must(err)
		lost, _ := nodetest.Scrape(t, metrics).Value("pullwarden_audit_lost_total", nil)
		return strings.Count(string(data), "\n")+int(lost) == pulls
	})
	if told := n.LogLines(0, "the audit log", "cannot be written"); len(told) != 1 {
		t.Errorf("the log says %q", told)
	}
	n.Must(os.Remove(filler))
	before := len(lines(t, path))
	n.MustPull(ref)
	eventually(t, path, before+1)
	nodetest.Eventually(t, "the end of it is told", func() bool {
		return len(n.LogLines(0, "the audit log", "is written again")) == 1
	})
	if before >= pulls {
		t.Errorf("%d lines are there of %d pulls", before, pulls)
	}
}

// TestAuditOnAReadOnlyDisk starts CRI where the kernel has the disk of the log read-only, as after an error of it, counts
// what is lost, and writes again once the disk is back.
func TestAuditOnAReadOnlyDisk(t *testing.T) {
	t.Parallel()
	metrics := nodetest.FreeAddress(t)
	n := nodetest.Prepare(t, nodetest.AuditLog("disk", "audit.log"), nodetest.MetricsAt(metrics)).With(resolvertest.New(t))
	dir := n.Path("disk")
	n.Must(os.Mkdir(dir, 0o700))
	n.Must(unix.Mount("pullwarden-test", dir, "tmpfs", unix.MS_RDONLY, "size=64k"))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	n.Start()
	n.Serve("registry.test", n.Registry)
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(nodetest.Named("app:1"))
	nodetest.Eventually(t, "the line is lost", func() bool {
		return strings.Contains(n.Scrape(metrics), "\npullwarden_audit_lost_total 1\n")
	})
	n.Must(unix.Mount("", dir, "", unix.MS_REMOUNT, "size=64k"))
	n.MustPull(nodetest.Named("app:1"))
	eventually(t, n.Path("disk", "audit.log"), 1)
}

// TestAuditPath tells a path at which there can be no log, and waits for nobody at one
// that gets into the way later.
func TestAuditPath(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t, nodetest.AuditLog("nowhere", "audit.log"))
	n.Run()
	p := n.Plugin("io.containerd.grpc.v1", "cri")
	if text := p.GetInitErr().GetMessage(); !strings.Contains(text, "audit_log") || !strings.Contains(text, "no such file or directory") {
		t.Errorf("CRI says %q", text)
	}

	metrics := nodetest.FreeAddress(t)
	n = nodetest.New(t, nodetest.AuditLog("audit.log"), nodetest.MetricsAt(metrics))
	n.Push("app:1", nodetest.Image(1))
	path := n.Path("audit.log")
	n.Must(os.Rename(path, path+".1"))
	n.Must(syscall.Mkfifo(path, 0o600))
	n.MustPull(nodetest.Named("app:1"))
	nodetest.Eventually(t, "the line is lost", func() bool {
		return strings.Contains(n.Scrape(metrics), "\npullwarden_audit_lost_total 1\n")
	})
	if status := n.Command("status"); status.Code != 1 || !strings.Contains(status.Stdout, "the audit log is not written: 1 decision lost") {
		t.Errorf("exit %d: %s", status.Code, status.Stdout)
	}
	n.Must(os.Remove(path))
	n.MustPull(nodetest.Named("app:1"))
	eventually(t, path, 1)
	nodetest.Eventually(t, "the node is healthy again", func() bool { return n.Command("status").Code == 0 })
}
