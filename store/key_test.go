// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// openKey opens a key on a machine that is always the same.
func openKey(t *testing.T, path string) *Key {
	t.Helper()
	return openKeyOn(t, path, strings.Repeat("1", 32))
}

// openKeyOn opens a key on the machine with that id; "" = it has none.
func openKeyOn(t *testing.T, path, id string) *Key {
	t.Helper()
	machineID := filepath.Join(t.TempDir(), "machine-id")
	if err := os.WriteFile(machineID, []byte(id+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := OpenKey(path, machineID)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeyIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin", "key")
	first := openKey(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || info.Size() != 64 {
		t.Errorf("mode %#o, %d bytes", info.Mode().Perm(), info.Size())
	}
	if again := openKey(t, path); again.Fingerprint("u", "p") != first.Fingerprint("u", "p") {
		t.Error("the fingerprint changed")
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("files %v, %v", left, err)
	}
}

// A key that is lost or damaged makes old fingerprints void: never valid.
func TestDamagedKeyIsReplaced(t *testing.T) {
	for what, damage := range map[string]func(path string) error{
		"lost":     os.Remove,
		"short":    func(path string) error { return os.Truncate(path, 31) },
		"cut":      func(path string) error { return os.Truncate(path, 63) },
		"empty":    func(path string) error { return os.Truncate(path, 0) },
		"long":     func(path string) error { return os.WriteFile(path, make([]byte, 33), 0o600) },
		"zero":     func(path string) error { return os.WriteFile(path, make([]byte, 32), 0o600) },
		"readable": func(path string) error { return os.Chmod(path, 0o644) },
		"a link": func(path string) error {
			if err := os.Rename(path, path+".away"); err != nil {
				return err
			}
			return os.Symlink("/dev/null", path)
		},
	} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			before := openKey(t, path).Fingerprint("u", "p")
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			k := openKey(t, path)
			if k.Fingerprint("u", "p") == before {
				t.Error("the old fingerprint is still valid")
			}
			if openKey(t, path).Fingerprint("u", "p") != k.Fingerprint("u", "p") {
				t.Error("the new key was not kept")
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}

func TestKeyThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKey(filepath.Join(dir, "file", "key"), filepath.Join(dir, "machine-id")); err == nil {
		t.Error("no error")
	}
}

func TestFingerprints(t *testing.T) {
	k := openKey(t, filepath.Join(t.TempDir(), "key"))
	other := openKey(t, filepath.Join(t.TempDir(), "key"))
	if got := k.Fingerprint("", ""); got != Anonymous {
		t.Errorf("nobody is %s", got)
	}
	seen := map[Fingerprint]string{}
	for _, c := range [][2]string{{"u", "p"}, {"up", ""}, {"", "up"}, {"u", "P"}, {"U", "p"}, {"u:p", ""}, {"a", "bc"}, {"ab", "c"}} {
		f := k.Fingerprint(c[0], c[1])
		if before, ok := seen[f]; ok {
			t.Errorf("%v has the fingerprint of %s", c, before)
		}
		seen[f] = c[0] + "+" + c[1]
		if f != k.Fingerprint(c[0], c[1]) || f == other.Fingerprint(c[0], c[1]) {
			t.Errorf("%v: not stable, or the same on another node", c)
		}
	}
}

// Of credentials that are sent as one text, some are parted at another colon.
func TestFingerprintsOfOneText(t *testing.T) {
	k := openKey(t, filepath.Join(t.TempDir(), "key"))
	want := k.Fingerprint("u", "a:b:c")
	for _, c := range [][2]string{{"u:a", "b:c"}, {"u:a:b", "c"}} {
		if k.Fingerprint(c[0], c[1]) != want {
			t.Errorf("%v has another fingerprint", c)
		}
	}
	if k.Fingerprint("u", "a:bc") == want || k.Fingerprint("u:a:b:c", "") == want {
		t.Error("another text has the same fingerprint")
	}
}

// Labels on nodes were made with these: they must stay valid.
func TestFingerprintsNeverChange(t *testing.T) {
	k := &Key{}
	for i := range k.secret {
		k.secret[i] = byte(i + 1)
	}
	for _, test := range []struct {
		username, secret string
		want             Fingerprint
	}{
		{"user", "password", "6318f1c286974536bbd56f4dae3cff43"},
		{"robot$team-a", "päss wörd", "48c35cc826dac55012fafab03393f566"},
		{"", "token", "9befa453ab6e034553ad84664fd2079f"},
		{"user", "", "b902bd1aaae112b04effb6acf02bd917"},
	} {
		if got := k.Fingerprint(test.username, test.secret); got != test.want {
			t.Errorf("%q, %q: got %s, want %s", test.username, test.secret, got, test.want)
		}
	}
}

// The fingerprints of namespaces are of another kind: nobody can make credentials of
// the name of a namespace, nor a namespace of credentials.
func TestNamespaceFingerprints(t *testing.T) {
	k := openKey(t, filepath.Join(t.TempDir(), "key"))
	other := openKey(t, filepath.Join(t.TempDir(), "key"))
	if got := k.NamespaceFingerprint(""); got != "" {
		t.Errorf("no namespace is %s", got)
	}
	seen := map[Fingerprint]bool{}
	for _, name := range []string{"team-a", "team-b", "anonymous", strings.Repeat("x", 63)} {
		f := k.NamespaceFingerprint(name)
		length := string(binary.LittleEndian.AppendUint64(nil, uint64(len(name))))
		for what, like := range map[string]Fingerprint{
			"everybody":             Anonymous,
			"a user":                k.Fingerprint(name, ""),
			"a password":            k.Fingerprint("", name),
			"both":                  k.Fingerprint(name, name),
			"a user of the prefix":  k.Fingerprint(ofNamespaces, name),
			"the input of a user":   k.NamespaceFingerprint(length + name),
			"another node's":        other.NamespaceFingerprint(name),
			"a user of the derived": k.Fingerprint("", ofNamespaces+"\x01"),
			"what is configured":    k.ConfiguredFingerprint(name),
		} {
			if f == like {
				t.Errorf("%q has the fingerprint of %s", name, what)
			}
		}
		if seen[f] || f != k.NamespaceFingerprint(name) || len(f) != 2*fingerprintSize {
			t.Errorf("%q: %s", name, f)
		}
		seen[f] = true
	}
}

// Labels on nodes were made with these: they must stay valid. The first is what this
// prints, with 0102…20 for the key:
//
//	derived=$(printf 'pullwarden.io/namespace\1' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0102…20 -r | cut -d' ' -f1)
//	printf 'team-a' | openssl dgst -sha256 -mac HMAC -macopt hexkey:$derived
func TestNamespaceFingerprintsNeverChange(t *testing.T) {
	k := &Key{}
	for i := range k.secret {
		k.secret[i] = byte(i + 1)
	}
	for namespace, want := range map[string]Fingerprint{
		"team-a":  "fbb3a525864f2bfaf27e90b2f16c8c05",
		"default": "508f76af6a88f90f0ed20e30d55426af",
	} {
		if got := k.NamespaceFingerprint(namespace); got != want {
			t.Errorf("%q: got %s, want %s", namespace, got, want)
		}
	}
}

func FuzzFingerprint(f *testing.F) {
	k := openKeyForFuzz(f)
	f.Add("user", "hunter2 and more")
	f.Fuzz(func(t *testing.T, username, secret string) {
		fingerprint := string(k.Fingerprint(username, secret))
		if len(fingerprint) != 32 && fingerprint != string(Anonymous) {
			t.Errorf("%q", fingerprint)
		}
		for _, plain := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
			if len(plain) > 4 && strings.Contains(fingerprint, plain) && fingerprint != string(Anonymous) {
				t.Errorf("%q tells %q", fingerprint, plain)
			}
		}
	})
}

func openKeyForFuzz(f *testing.F) *Key {
	f.Helper()
	k := &Key{}
	copy(k.secret[:], bytes.Repeat([]byte{7}, keySize))
	return k
}

func BenchmarkFingerprint(b *testing.B) {
	k := &Key{secret: [keySize]byte{1}}
	b.ReportAllocs()
	for b.Loop() {
		k.Fingerprint("robot$team-a", "a password of a usual length, say")
	}
}

// Each node has a number of its own, which stays and says nothing of the key.
func TestNodeOfAKey(t *testing.T) {
	seen := map[uint64]bool{0: true}
	for range 100 {
		path := filepath.Join(t.TempDir(), "key")
		k := openKey(t, path)
		if seen[k.Node()] || openKey(t, path).Node() != k.Node() {
			t.Fatal("a number that is 0, another node's, or another after a restart")
		}
		seen[k.Node()] = true
	}
}
