// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeNode is a tree, with a systemd that runs what its drop-in says. A binary whose text
// begins with "bad" never answers.
type fakeNode struct {
	t       *testing.T
	machine *Machine
	pid     int
	up      bool
	calls   []string
	reloads func() error
}

func newFakeNode(t *testing.T) *fakeNode {
	n := &fakeNode{t: t, pid: 7, up: true, reloads: func() error { return nil }}
	n.machine = &Machine{tree: tree(t.TempDir()), sys: n, probe: n}
	for _, dir := range []string{"/run", "/usr/lib", "/var/lib", "/etc/systemd/system"} {
		n.check(os.MkdirAll(n.machine.tree.path(dir), 0o755))
	}
	return n
}

func (n *fakeNode) check(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *fakeNode) state(context.Context) (Service, error) {
	if !n.up {
		return Service{PID: n.pid, Restarts: maxExits}, nil
	}
	return Service{Active: true, PID: n.pid}, nil
}

func (n *fakeNode) reload(context.Context) error {
	n.calls = append(n.calls, "reload")
	return n.reloads()
}

func (n *fakeNode) restart(context.Context) error {
	n.calls = append(n.calls, "restart")
	n.pid++
	n.up = !strings.HasPrefix(n.binary(), "bad")
	return nil
}
func (n *fakeNode) start(_ context.Context, units []string) error {
	n.calls = append(n.calls, "start "+strings.Join(units, " "))
	return nil
}
func (n *fakeNode) active(context.Context, []string) []string   { return nil }
func (n *fakeNode) stop(context.Context) error                  { n.calls = append(n.calls, "stop"); return nil }
func (n *fakeNode) kill(context.Context)                        { n.calls = append(n.calls, "kill") }
func (n *fakeNode) journal(context.Context, time.Time) []string { return []string{"last words"} }
func (n *fakeNode) kubelet(context.Context) error               { return nil }

func (n *fakeNode) daemon(context.Context, string) (running, error) {
	return running{version: n.version(), pid: n.pid}, nil
}

// version is what the daemon says that runs.
func (n *fakeNode) version() string {
	if n.binary() == "stock" {
		return "stock"
	}
	return n.binary() + "+pullwarden."
}

// binary is the text of the one that the unit runs.
func (n *fakeNode) binary() string {
	if text, err := n.machine.tree.text(DropIn); err != nil || text == nil {
		return "stock"
	}
	text, err := n.machine.tree.text(Dir + "/" + daemon)
	if err != nil || text == nil {
		return "bad: none"
	}
	return *text
}

// release makes one whose binaries have that text.
func (n *fakeNode) release(text string) *Source {
	dir := n.t.TempDir()
	s := &Source{Release: Release{Version: Version{text + "+pullwarden.", 2, 4, 2}, Digests: Digests{}}, files: map[string]*os.File{}}
	for _, name := range binaries() {
		n.check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		f, err := os.Open(filepath.Join(dir, name))
		n.check(err)
		n.t.Cleanup(func() { _ = f.Close() })
		s.files[name] = f
		s.Digests[name], err = digestOf(f)
		n.check(err)
	}
	return s
}

// facts are those of the tree now.
func (n *fakeNode) facts(s *Source) *Facts {
	f := stockNode()
	f.New, f.Service.PID, f.Service.Version = s.Release, n.pid, Version{Full: n.version()}
	f.Stock.Version.Full = "stock"
	var err error
	for _, name := range binaries() {
		f.Placed[name], err = n.machine.tree.digest(Dir + "/" + name)
		n.check(err)
	}
	f.DropIn, err = n.machine.tree.text(DropIn)
	n.check(err)
	if f.DropIn != nil {
		f.Service.Digest = f.Placed[daemon]
	}
	f.Pending, err = n.machine.tree.pending()
	n.check(err)
	return &f
}

const fakeTimeout = time.Minute // no step of a fake node takes any time

func (n *fakeNode) install(ctx context.Context, text string) error {
	unlock, err := n.machine.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	s := n.release(text)
	f := n.facts(s)
	return n.machine.Run(ctx, PlanInstall(f, fakeTimeout), f, s, fakeTimeout, func(int) {})
}

func (n *fakeNode) uninstall() error {
	f := n.facts(&Source{})
	return n.machine.Run(n.t.Context(), PlanUninstall(f, fakeTimeout), f, nil, fakeTimeout, func(int) {})
}

// files are all of the tree by path, with their text.
func (n *fakeNode) files() map[string]string {
	all := map[string]string{}
	root := string(n.machine.tree)
	n.check(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if path == root {
				return err
			}
			all[strings.TrimPrefix(path, root)] = "directory"
			return err
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, root)] = string(text)
		return err
	}))
	delete(all, lockFile)
	return all
}

// failed returns the failure of a run.
func (n *fakeNode) failed(err error) *Failure {
	n.t.Helper()
	failure, ok := errors.AsType[*Failure](err)
	if !ok {
		n.t.Fatalf("it ended with %v", err)
	}
	return failure
}
