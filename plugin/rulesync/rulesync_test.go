// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rulesync

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/rules"
)

const (
	always = "[[rule]]\nimages = [\"registry.test/**\"]\npolicy = \"Always\"\n"
	never  = "[[rule]]\nimages = [\"other.test/**\"]\npolicy = \"Never\"" // no line end
	cases  = "rules = [\"../pullwarden.d\"]\n[[case]]\nimage = \"registry.test/app:1\"\nexpect = { policy = \"Always\", rule = \"10-a.toml#1\" }\n"
)

type files map[string]string

// volume is a directory as the kubelet makes it of a ConfigMap.
type volume struct {
	t       testing.TB
	dir     string
	version int
}

func newVolume(t testing.TB, content files) *volume {
	v := &volume{t: t, dir: t.TempDir()}
	v.exchange(content)
	return v
}

// exchange puts another version in place by the steps of the kubelet's atomic writer.
func (v *volume) exchange(content files) {
	v.t.Helper()
	v.version++
	version := fmt.Sprintf("..2026_11_21_%d", v.version)
	link := filepath.Join(v.dir, currentVersion)
	was, _ := os.Readlink(link)
	v.must(os.Mkdir(filepath.Join(v.dir, version), 0o755))
	for name, text := range content {
		v.must(os.WriteFile(filepath.Join(v.dir, version, name), []byte(text), 0o644))
	}
	v.must(os.Symlink(version, filepath.Join(v.dir, "..data_tmp")))
	v.must(os.Rename(filepath.Join(v.dir, "..data_tmp"), link))
	names, _ := filepath.Glob(filepath.Join(v.dir, "[^.]*"))
	for _, name := range names {
		v.must(os.Remove(name))
	}
	for name := range content {
		v.must(os.Symlink(filepath.Join(currentVersion, name), filepath.Join(v.dir, name)))
	}
	if was != "" {
		v.must(os.RemoveAll(filepath.Join(v.dir, was)))
	}
}

func (v *volume) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

// newSync returns a copy of a source into a directory of its own, and that directory.
func newSync(t testing.TB, from string) (s *Sync, dir string, log *bytes.Buffer) {
	dir, log = t.TempDir(), &bytes.Buffer{}
	return &Sync{From: from, To: filepath.Join(dir, "50-cluster.toml"), Log: log}, dir, log
}

func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// policies returns what the rules of a directory say, as the daemon reads it.
func policies(t testing.TB, dir string) string {
	t.Helper()
	d, err := rules.Open(rules.Options{Path: dir, Required: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	inForce, err := d.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, repository := range []string{"registry.test/app", "other.test/app"} {
		got, err := inForce.For(policy.Subject{Image: policy.Image{Repository: repository, Tag: "1"}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(got.Policy))
	}
	return strings.Join(all, ", ")
}

func TestCopyFollowsItsSource(t *testing.T) {
	v := newVolume(t, files{"10-a.toml": always, "20-b.toml": never, "a.test.toml": cases})
	s, dir, log := newSync(t, v.dir)
	v.must(os.WriteFile(filepath.Join(dir, "10-mine.toml"), []byte("# the operator's\n"), 0o600))
	step := func(want string) {
		t.Helper()
		if err := s.Probe(); err == nil {
			t.Error("the probe does not notice the change")
		}
		for range 2 {
			v.must(s.Once())
		}
		v.must(s.Probe())
		if got := policies(t, dir); got != want {
			t.Errorf("policies %s, want %s", got, want)
		}
		if got := names(t, dir); len(got) != 2 || got[0] != "10-mine.toml" {
			t.Errorf("the directory has %q", got)
		}
	}
	step("Always, Never")
	v.exchange(files{"10-a.toml": always})
	step("Always, Always")
	v.exchange(files{"20-b.toml": never})
	step("Always, Never") // by default
	v.exchange(files{})
	step("Always, Always")
	v.must(os.Remove(s.To))
	step("Always, Always")
	if info, err := os.Stat(s.To); err != nil || info.Mode() != fileMode {
		t.Errorf("%v, %v", info, err)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 5 {
		t.Errorf("%d lines: %s", lines, log)
	}
}

// A version that is not taken leaves all as it was, and is told of.
func TestRefusedSources(t *testing.T) {
	for name, test := range map[string]struct {
		content files
		want    string
	}{
		"a typing error":           {files{"10-a.toml": always + "polcy = 'Never'\n"}, "10-a.toml:4"},
		"one of two files":         {files{"10-a.toml": always, "20-b.toml": "[[rule]\n"}, "20-b.toml:1"},
		"a case that fails":        {files{"10-a.toml": never, "a.test.toml": cases}, `a.test.toml:2: : rule: expected "10-a.toml#1"`},
		"a case with a mistake":    {files{"10-a.toml": always, "a.test.toml": cases + "imag = 1\n"}, "a.test.toml:5"},
		"cases of other rules":     {files{"a.test.toml": strings.Replace(cases, "../pullwarden.d", "/nowhere", 1)}, "/nowhere"},
		"cases of missing rules":   {files{"a.test.toml": strings.Replace(cases, "../pullwarden.d", "../missing", 1)}, "missing"},
		"a name without .toml":     {files{"10-a": always}, `"10-a" is neither a rule file`},
		"a name that is a comment": {files{"10\n[[rule]]\n.toml": always}, "allowed in the name"},
		"an array of rules":        {files{"10-a.toml": "rule = [{images = ['a.test/**'], policy = 'Never'}]", "20.toml": never}, "[[rule]]"},
		"a huge file":              {files{"10-a.toml": strings.Repeat("# much\n", 2<<20)}, "larger than"},
		"not text":                 {files{"10-a.toml": "\xff\x00"}, "10-a.toml:1"},
		"hosts.toml as rules":      {files{"hosts.toml": "server = 'https://registry.test'\n"}, "hosts.toml:1"},
		"config.toml as rules":     {files{"config.toml": "version = 3\n"}, "config.toml:1"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t, files{"10-a.toml": always, "20-b.toml": never})
			s, dir, _ := newSync(t, v.dir)
			v.must(s.Once())
			was, err := os.ReadFile(s.To)
			v.must(err)
			v.exchange(test.content)
			for what, err := range map[string]error{"copy": s.Once(), "probe": s.Probe()} {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: %v, want %s", what, err, test.want)
				}
			}
			if first, second := s.Once(), s.Once(); first.Error() != second.Error() {
				t.Errorf("%v, and the next time %v", first, second)
			}
			if now, err := os.ReadFile(s.To); err != nil || !bytes.Equal(was, now) || len(names(t, dir)) != 1 {
				t.Errorf("the copy has changed: %s, %v, %q", now, err, names(t, dir))
			}
		})
	}
}

// A file, link or directory of somebody else is neither replaced nor followed.
func TestForeignFilesStay(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a rule file": func(path string) error { return os.WriteFile(path, []byte(never), 0o600) },
		"an empty file": func(path string) error {
			return os.WriteFile(path, nil, 0o600)
		},
		"a link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t, files{"10-a.toml": always})
			s, _, _ := newSync(t, v.dir)
			v.must(put(s.To))
			was, err := os.Lstat(s.To)
			v.must(err)
			if err := s.Once(); err == nil || !strings.Contains(err.Error(), errForeign.Error()) {
				t.Errorf("got %v", err)
			}
			if now, err := os.Lstat(s.To); err != nil || !os.SameFile(was, now) || was.ModTime() != now.ModTime() {
				t.Errorf("it was touched: %v, %v", now, err)
			}
		})
	}
}

// A source that vanishes is no source without rules.
func TestSourceVanishes(t *testing.T) {
	v := newVolume(t, files{"10-a.toml": always})
	s, dir, _ := newSync(t, v.dir)
	v.must(s.Once())
	v.must(os.Remove(filepath.Join(v.dir, currentVersion)))
	v.must(os.Remove(filepath.Join(v.dir, "10-a.toml")))
	if s.Once() == nil || s.Probe() == nil {
		t.Error("an empty directory is taken for a ConfigMap without rules")
	}
	v.must(os.RemoveAll(v.dir))
	if s.Once() == nil || s.Probe() == nil || policies(t, dir) != "Always, Always" {
		t.Error("it is taken for one without rules")
	}
}

func TestWatchTellsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVolume(t, files{"10-a.toml": "polcy"})
		s, dir, log := newSync(t, v.dir)
		s.Log = log
		for path, was := range map[string]string{s.To: heading, filepath.Join(dir, ".50-cluster.toml.1.tmp"): "half"} {
			v.must(os.WriteFile(path, []byte(was), 0o600))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*pollInterval)
		defer cancel()
		s.Watch(ctx.Done())
		if strings.Count(log.String(), "not taken") != 1 {
			t.Errorf("got %q", log)
		}
		if got := names(t, dir); len(got) != 1 {
			t.Errorf("the directory has %q", got)
		}
		v.exchange(files{"10-a.toml": always})
		ctx, cancel = context.WithTimeout(t.Context(), pollInterval/2)
		defer cancel()
		s.Watch(ctx.Done())
		v.must(s.Probe())
	})
}

// No file can be made in these places, as on a full disk.
func TestFullDiskIsToldOnce(t *testing.T) {
	const full = "/proc"
	for name, fill := range map[string]func(*testing.T, *Sync){
		"of the copy":            func(_ *testing.T, s *Sync) { s.To = full + "/50-cluster.toml" },
		"of the temporary files": func(t *testing.T, _ *Sync) { t.Setenv("TMPDIR", full) },
	} {
		t.Run(name, func(t *testing.T) {
			s, _, log := newSync(t, newVolume(t, files{"10-a.toml": always}).dir)
			fill(t, s)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*pollInterval)
				defer cancel()
				s.Watch(ctx.Done())
			})
			if strings.Count(log.String(), "not taken") != 1 {
				t.Errorf("got %q", log)
			}
		})
	}
}
