// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/internal/filestamp"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	always = "[[rule]]\nimages = [\"**\"]\npolicy = \"Always\"\n"
	never  = "[[rule]]\nimages = [\"**\"]\npolicy = \"Never\"\n"
)

type rulesUnderTest struct {
	*Dir
	t      *testing.T
	dir    string
	health atomic.Bool
}

func newRules(t *testing.T, dir string) *rulesUnderTest {
	t.Helper()
	r := &rulesUnderTest{t: t, dir: dir}
	d, err := Open(Options{Path: dir, Reloaded: r.health.Store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	r.Dir = d
	return r
}

// rulesOf returns the rules of d as they are now.
func rulesOf(tb testing.TB, d *Dir) *policy.Rules {
	tb.Helper()
	rules, err := d.Current(tb.Context())
	if err != nil {
		tb.Error(err)
	}
	return rules
}

func (r *rulesUnderTest) write(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rulesUnderTest) want(p policy.PullPolicy, healthy bool) {
	r.t.Helper()
	d, err := rulesOf(r.t, r.Dir).For(policy.Subject{Image: policy.Image{Repository: "registry.test/app", Tag: "1"}})
	if err != nil {
		r.t.Fatal(err)
	}
	if d.Policy != p {
		r.t.Errorf("policy %s, want %s", d.Policy, p)
	}
	if r.health.Load() != healthy {
		r.t.Errorf("last reload successful: %v, want %v", r.health.Load(), healthy)
	}
}

func TestRulesFollowTheFiles(t *testing.T) {
	r := newRules(t, t.TempDir())
	r.want(policy.Always, true) // the default
	r.write("20.toml", never)
	r.want(policy.Never, true)
	r.write("10.toml", always) // the first match decides, in the order of names
	r.want(policy.Always, true)
	r.write("notes.txt", "not a rule file")
	r.write(".10.toml.swp.toml", "nor is this")
	if err := os.Symlink("admin@host.4711:1795372056", filepath.Join(r.dir, ".#10.toml")); err != nil { // a lock of Emacs
		t.Fatal(err)
	}
	r.want(policy.Always, true)
	if err := os.Remove(filepath.Join(r.dir, "10.toml")); err != nil {
		t.Fatal(err)
	}
	r.want(policy.Never, true)
}

// The same size, and a time that the file system may not tell apart.
func TestRulesSeeAQuickChange(t *testing.T) {
	r := newRules(t, t.TempDir())
	stamp := time.Now()
	for i := range 20 {
		content, want := always+"# \n", policy.Always
		if i%2 == 1 {
			content, want = never+"#  \n", policy.Never
		}
		r.write("10.toml", content)
		if err := os.Chtimes(filepath.Join(r.dir, "10.toml"), stamp, stamp); err != nil {
			t.Fatal(err)
		}
		r.want(want, true)
	}
}

func TestBadFilesLeaveTheLastGoodRules(t *testing.T) {
	r := newRules(t, t.TempDir())
	r.write("10.toml", never)
	r.want(policy.Never, true)
	for what, content := range map[string]string{
		"syntax":        "[[rule]\n",
		"unknown key":   always + "polcy = \"Never\"\n",
		"unknown value": "[[rule]]\nimages = [\"**\"]\npolicy = \"Sometimes\"\n",
	} {
		r.write("10.toml", content)
		t.Log(what)
		r.want(policy.Never, false)
		r.write("10.toml", never)
		r.want(policy.Never, true)
	}
	// A second file that is bad keeps the first in force too.
	r.write("20.toml", "nonsense")
	r.want(policy.Never, false)
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	r.want(policy.Never, false)
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.write("10.toml", always)
	r.want(policy.Always, true)
}

func TestBadFilesAtStartUp(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "10-team.toml")
	if err := os.WriteFile(path, []byte(always+"polcy = \"Never\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Path: dir})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{path + ":4", "polcy"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}

func TestNoDirectoryHasNoRules(t *testing.T) {
	r := newRules(t, filepath.Join(t.TempDir(), "later"))
	r.want(policy.Always, true)
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	r.write("10.toml", never)
	r.want(policy.Never, true)
}

// writeIn writes a file, and makes its directory.
func writeIn(t testing.TB, dir, name, content string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// point makes a link lead to target, at once.
func point(t *testing.T, link, target string) {
	t.Helper()
	if err := os.Symlink(target, link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
}

// A mounted ConfigMap changes by switching a link.
func TestRulesBehindLinks(t *testing.T) {
	root := t.TempDir()
	writeIn(t, filepath.Join(root, "v1"), "10.toml", always)
	writeIn(t, filepath.Join(root, "v2"), "10.toml", never)
	data := filepath.Join(root, "..data")
	point(t, data, "v1")
	dir := filepath.Join(root, "mounted")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../..data/10.toml", filepath.Join(dir, "10.toml")); err != nil {
		t.Fatal(err)
	}
	r := newRules(t, dir)
	r.want(policy.Always, true)
	point(t, data, "v2")
	r.want(policy.Never, true)
}

// While the rules are read the directory may become another one, with files that
// did not change for long.
func TestRulesOfAnotherDirectory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	writeIn(t, filepath.Join(root, "lax"), "20.toml", always)
	writeIn(t, filepath.Join(root, "strict"), "20.toml", always)
	writeIn(t, filepath.Join(root, "strict"), "10.toml", never)
	current := filepath.Join(root, "rules")
	point(t, current, "lax")
	time.Sleep(filestamp.SettleTime) // nobody can set the change time of a file
	r := newRules(t, current)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					rulesOf(r.t, r.Dir)
				}
			}
		})
	}
	defer readers.Wait()
	defer close(stop)
	for i := range 500 {
		for dir, p := range map[string]policy.PullPolicy{"strict": policy.Never, "lax": policy.Always} {
			if i%2 == 0 { // twice in a row
				point(t, current, "strict")
				point(t, current, "lax")
			}
			point(t, current, dir)
			for deadline := time.Now().Add(time.Minute); ; {
				d, err := rulesOf(r.t, r.Dir).For(policy.Subject{Image: policy.Image{Repository: "registry.test/app", Tag: "1"}})
				if err == nil && d.Policy == p {
					break
				}
				if err != nil || time.Now().After(deadline) {
					t.Fatalf("the rules of %s are not in force: %s, %v", dir, d.Policy, err)
				}
			}
		}
	}
}
