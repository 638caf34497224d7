// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// put writes a file, and makes its directory.
func put(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// names returns the hosts of a set in one text.
func names(s *Set) string {
	var all []string
	for _, h := range s.Hosts() {
		all = append(all, h.Name())
	}
	return strings.Join(all, " ")
}

// A cache that has never seen a good file takes its last good version, in its order
// of hosts, and with the certificates that it names by any kind of path.
func TestLastGoodText(t *testing.T) {
	secure := resolvertest.New(t, resolvertest.WithTLS())
	root := hostsDir(t, "[host")
	dir := filepath.Join(root, registryName)
	scratch := filepath.Join(t.TempDir(), "made")
	put(t, filepath.Join(dir, "certs", "a.pem"), secure.CAPEM())
	put(t, filepath.Join(root, "b.pem"), secure.CAPEM())
	put(t, filepath.Join(filepath.Dir(root), "c.pem"), secure.CAPEM())
	put(t, filepath.Join(root, "abs.pem"), secure.CAPEM())
	good := chain("https://z.test", "https://a.test", "https://registry.test") +
		"[host.'https://m.test']\nca = ['certs/a.pem', './certs/../certs/a.pem', '../b.pem', '../../c.pem', '" + filepath.Join(root, "abs.pem") + "']\n"
	lastGood := map[string]*watched{dir: {good: goodText{text: []byte(good)}}}
	w := &Watcher{options: WatchOptions{Archive: filepath.Join(scratch, "archive")}, noted: map[string]goodText{}}
	w.dirs.Store(&lastGood)
	c := newCache(t, Options{Dirs: []string{root}, Watcher: w})
	set, _, err := acquire(t, c, registryName)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(set), "z.test a.test m.test registry.test"; got != want || !set.Hosts()[0].Configured {
		t.Errorf("got %s, want %s", got, want)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if again, change := use(t, c, registryName); again != set || change.Reconfigured {
		t.Error("the same text gives another set")
	}

	// A certificate that is replaced meanwhile counts; one that is gone leaves the set.
	put(t, filepath.Join(root, "b.pem"), append(secure.CAPEM(), '\n'))
	renewed, change := use(t, c, registryName)
	if renewed == set || !slices.Equal(change.Retired, []*Set{set}) {
		t.Errorf("a certificate has changed: %+v", change)
	}
	if err := os.Remove(filepath.Join(root, "b.pem")); err != nil {
		t.Fatal(err)
	}
	if again, _ := use(t, c, registryName); again != renewed {
		t.Error("without a certificate there is another set")
	}
	put(t, filepath.Join(root, "b.pem"), append(secure.CAPEM(), '\n'))
	write(t, root, registryName, good)
	if again, change := use(t, c, registryName); again != renewed || change.Reconfigured {
		t.Error("the same text in its own file gives another set")
	}

	// Nothing is known of another directory, nor counts what cannot be used.
	write(t, root, "other.test", "[host")
	for _, text := range []string{"", "[host", "ca = 'missing.pem'\n"} {
		lastGood[filepath.Join(root, "other.test")] = &watched{good: goodText{text: []byte(text)}}
		if _, _, err := acquire(t, c, "other.test"); !errors.As(err, new(*FileError)) || !strings.Contains(err.Error(), "hosts.toml:1") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// A copy for containerd is made where there is room, and that there is none is told as what it is.
func TestLastGoodOnAFullDisk(t *testing.T) {
	const full = "/proc/none" // no directory can be made there
	for _, test := range []struct {
		state, archive string
		usable         bool
	}{
		{"", "", true}, {t.TempDir(), full, true}, {full, t.TempDir(), true}, {full, full, false},
	} {
		root := hostsDir(t, "[host")
		dir := filepath.Join(root, registryName)
		lastGood := map[string]*watched{dir: {good: goodText{text: []byte(chain("https://a.test"))}, err: &FileError{}}}
		w := &Watcher{options: WatchOptions{State: test.state}, noted: map[string]goodText{}}
		if test.archive != "" {
			w.options.Archive = filepath.Join(test.archive, "archive")
		}
		w.dirs.Store(&lastGood)
		if _, _, err := acquire(t, newCache(t, Options{Dirs: []string{root}, Watcher: w}), registryName); (err == nil) != test.usable {
			t.Errorf("%+v: got %v", test, err)
		}
		for _, place := range w.places() {
			if left, _ := filepath.Glob(filepath.Join(place, "hosts-*")); place != os.TempDir() && len(left) > 0 {
				t.Errorf("%+v: left over: %v", test, left)
			}
		}
		p := w.Problems()[0]
		if told := p.Consequence(); p.OnlyAsked == test.usable || strings.Contains(told, "certificate") || strings.Contains(told, full) == test.usable || told != p.Consequence() {
			t.Errorf("%+v: told %s", test, told)
		}
	}
}

// That there was no hosts.toml, or none any more, is no version of it: nobody knows whom
// a new one would have let answer.
func TestNoHostsFileIsNoVersion(t *testing.T) {
	for what, empty := range map[string]func(root string) error{
		"not there": func(root string) error { return os.Mkdir(filepath.Join(root, registryName), 0o755) },
		"empty":     func(root string) error { put(t, filepath.Join(root, registryName, fileName), nil); return nil },
		"removed": func(root string) error {
			write(t, root, registryName, chain("https://mirror.test"))
			return os.Remove(filepath.Join(root, registryName, fileName))
		},
	} {
		for _, watched := range []bool{true, false} {
			root := t.TempDir()
			if err := empty(root); err != nil {
				t.Fatal(err)
			}
			o := Options{Dirs: []string{root}}
			if watched {
				o.Watcher = Watch(WatchOptions{Dirs: o.Dirs})
				defer func() { _ = o.Watcher.Close() }()
			}
			c := newCache(t, o)
			if set, _ := use(t, c, registryName); names(set) != registryName {
				t.Errorf("%s, watched %v: got %s", what, watched, names(set))
			}
			write(t, root, registryName, "[host")
			if set, _, err := acquire(t, c, registryName); !errors.As(err, new(*FileError)) {
				t.Errorf("%s, watched %v: got %v, %v", what, watched, set, err)
			}
		}
	}
}

// The last good version is that of the directory that counts now.
func TestLastGoodOfAnotherDirectory(t *testing.T) {
	root := t.TempDir()
	write(t, root, "_default", chain("https://default.test"))
	c := newCache(t, Options{Dirs: []string{root}})
	use(t, c, registryName)
	write(t, root, registryName, "[host")
	if _, _, err := acquire(t, c, registryName); !errors.As(err, new(*FileError)) {
		t.Errorf("got %v", err)
	}
	if err := os.RemoveAll(filepath.Join(root, registryName)); err != nil {
		t.Fatal(err)
	}
	if set, _ := use(t, c, registryName); names(set) != "default.test" {
		t.Errorf("got %s", names(set))
	}
	write(t, root, registryName, "") // has nothing to say
	if set, _ := use(t, c, registryName); names(set) != registryName {
		t.Errorf("got %s", names(set))
	}
}

// Errors name no credentials, wherever the slip is.
func TestFileErrorsHaveNoCredentials(t *testing.T) {
	write := func(text string) error {
		_, _, err := acquire(t, newCache(t, Options{Dirs: []string{hostsDir(t, text)}}), registryName)
		return err
	}
	for _, text := range []string{"[host.'https://user:secret@m.test']\ncapabilities = 7\n", "[host.'https://user:secret@m.test']\nca = 'nowhere.pem'\ndial_timeout = 'x'\n"} {
		if err := write(text); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "m.test") {
			t.Errorf("got %v", err)
		}
	}
}
