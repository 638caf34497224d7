// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/internal/keptfiles"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

const mistake = always + "polcy = \"Never\"\n"

// keptNode is what a restart finds: a directory of rules and a root.
type keptNode struct {
	t       *testing.T
	dir     string
	archive string
	healthy bool
}

func newKeptNode(t *testing.T) *keptNode {
	t.Helper()
	root := t.TempDir()
	n := &keptNode{t: t, dir: filepath.Join(root, "etc"), archive: filepath.Join(root, "rules", "last-good.tar.gz")}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *keptNode) open(section policy.Overrides) (*Dir, error) {
	return Open(Options{Path: n.dir, Required: true, Section: section, Archive: n.archive, Reloaded: func(ok bool) { n.healthy = ok }})
}

// want opens the rules, looks at those for an image, and closes them.
func (n *keptNode) want(p policy.PullPolicy, healthy bool) policy.Effective {
	n.t.Helper()
	d, err := n.open(policy.Overrides{})
	if err != nil {
		n.t.Fatal(err)
	}
	defer d.Close()
	got, err := rulesOf(n.t, d).For(policy.Subject{Image: policy.Image{Repository: "registry.test/app", Tag: "1"}})
	if err != nil || got.Policy != p || n.healthy != healthy {
		n.t.Errorf("policy %s, want %s; healthy is %v; %v", got.Policy, p, n.healthy, err)
	}
	return got
}

func TestKeptRulesTakeTheirPlace(t *testing.T) {
	n := newKeptNode(t)
	writeIn(t, n.dir, "10-team.toml", always)
	writeIn(t, n.dir, "20.toml", "") // without rules
	n.want(policy.Always, true)
	writeIn(t, n.dir, "10-team.toml", never)
	n.want(policy.Never, true)
	writeIn(t, n.dir, "10-team.toml", mistake)
	for range 2 {
		got := n.want(policy.Never, false)
		if got.Rule.File != filepath.Join(n.dir, "10-team.toml") || got.SetBy(policy.KeyPolicy) != "rule 10-team.toml#1" {
			t.Errorf("the rule is that of %s, set by %s", got.Rule.File, got.SetBy(policy.KeyPolicy))
		}
	}
	if err := os.RemoveAll(n.dir); err != nil {
		t.Fatal(err)
	}
	n.want(policy.Never, false)
	writeIn(t, n.dir, "10-team.toml", always)
	n.want(policy.Always, true)
	info, err := os.Stat(n.archive)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the archive has mode %v, %v", info.Mode(), err)
	}
}

// The section is that of now: it is configuration of its own, without a mistake.
func TestKeptRulesUnderAnotherSection(t *testing.T) {
	n := newKeptNode(t)
	writeIn(t, n.dir, "10.toml", never)
	n.want(policy.Never, true)
	writeIn(t, n.dir, "10.toml", mistake)
	var section policy.Overrides
	if err := section.Set(policy.KeyMaxStale, "7h"); err != nil {
		t.Fatal(err)
	}
	d, err := n.open(section)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := rulesOf(t, d).For(policy.Subject{Image: policy.Image{Repository: "registry.test/app", Tag: "1"}})
	if err != nil || got.Policy != policy.Never || got.MaxStale != 7*time.Hour {
		t.Errorf("%s, %s, %v", got.Describe(policy.KeyPolicy), got.Describe(policy.KeyMaxStale), err)
	}
}

func TestNothingWasKept(t *testing.T) {
	n := newKeptNode(t)
	writeIn(t, n.dir, "10.toml", mistake)
	wantError := func(parts ...string) {
		t.Helper()
		d, err := n.open(policy.Overrides{})
		if err == nil {
			d.Close()
			t.Fatal("it started")
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is missing in: %v", part, err)
			}
		}
	}
	wantError(filepath.Join(n.dir, "10.toml")+":4", "polcy")
	if err := os.RemoveAll(n.dir); err != nil {
		t.Fatal(err)
	}
	wantError(n.dir, "config_path")
	writeIn(t, n.dir, "10.toml", "")
	n.want(policy.Always, true)

	writeIn(t, n.dir, "10.toml", mistake)
	n.want(policy.Always, false) // no rules are rules that were good, too
	data, err := os.ReadFile(n.archive)
	if err != nil {
		t.Fatal(err)
	}
	writeIn(t, filepath.Dir(n.archive), filepath.Base(n.archive), string(data[:len(data)-1]))
	wantError("10.toml:4", n.archive)
	writeIn(t, n.dir, "10.toml", never)
	n.want(policy.Never, true)
	writeIn(t, n.dir, "10.toml", mistake)
	n.want(policy.Never, false)
}

// A directory that is not there has no rules to go back to where none were kept: those may be of another
// directory, which had none.
func TestKeptOfAnotherDirectory(t *testing.T) {
	n := newKeptNode(t)
	writeIn(t, n.dir, "10-example.toml", "# no rules yet\n")
	n.want(policy.Always, true)
	n.dir = filepath.Join(filepath.Dir(n.dir), "of-config_path")
	if d, err := n.open(policy.Overrides{}); err == nil {
		defer d.Close()
		got, err := d.State(t.Context())
		t.Errorf("it starts with %d rules: %v, %v", got.Rules, got.Err, err)
	}
}

// The default directory need not be there, unless it had rules.
func TestDefaultDirectory(t *testing.T) {
	n := newKeptNode(t)
	want := func(p policy.PullPolicy, ok bool) {
		t.Helper()
		d, err := Open(Options{Path: n.dir, Archive: n.archive, Reloaded: func(ok bool) { n.healthy = ok }})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		got, err := rulesOf(t, d).For(policy.Subject{Image: policy.Image{Repository: "registry.test/app"}})
		if err != nil || got.Policy != p || n.healthy != ok {
			t.Errorf("policy %s, want %s; healthy is %v; %v", got.Policy, p, n.healthy, err)
		}
	}
	remove := func() {
		t.Helper()
		if err := os.RemoveAll(n.dir); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	want(policy.Always, true)
	writeIn(t, n.dir, "10.toml", never)
	want(policy.Never, true)
	remove()
	want(policy.Never, false)
	writeIn(t, n.dir, "10.toml", "")
	want(policy.Always, true)
	remove()
	want(policy.Always, true)
}

// A kill leaves the archive before or after, and no files for ever.
func TestInterruptedKeeping(t *testing.T) {
	n := newKeptNode(t)
	writeIn(t, n.dir, "10.toml", never)
	n.want(policy.Never, true)
	writeIn(t, filepath.Dir(n.archive), "1234567", "half")
	writeIn(t, n.dir, "10.toml", mistake)
	n.want(policy.Never, false)
	if entries, err := os.ReadDir(filepath.Dir(n.archive)); err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

func TestChangesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newKeptNode(t)
		d, err := n.open(policy.Overrides{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		keptPolicy := func() string {
			t.Helper()
			archive := keptfiles.New(n.archive)
			kept, err := archive.Load()
			if err != nil || len(kept.Files) != 1 {
				t.Fatalf("%d files, %v", len(kept.Files), err)
			}
			return string(kept.Files[0].Data)
		}
		writeIn(t, n.dir, "10.toml", never)
		rulesOf(t, d)
		synctest.Wait()
		if got := keptPolicy(); got != never {
			t.Errorf("kept is %s", got)
		}
		// The obstacle is gone before the next poll.
		if err := os.RemoveAll(filepath.Dir(n.archive)); err != nil {
			t.Fatal(err)
		}
		writeIn(t, filepath.Dir(filepath.Dir(n.archive)), "rules", "a file")
		writeIn(t, n.dir, "10.toml", always)
		rulesOf(t, d)
		synctest.Wait()
		if !n.healthy {
			t.Error("rules that cannot be kept are not in force")
		}
		if err := os.Remove(filepath.Dir(n.archive)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(pollInterval)
		synctest.Wait()
		if got := keptPolicy(); got != always {
			t.Errorf("kept is %s", got)
		}
	})
}
