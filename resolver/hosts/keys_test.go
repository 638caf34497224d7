// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"testing"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// Hosts are one for their health where they are asked in one way: at the same address, and with
// the settings of the same directory, or with none.
func TestKeysOfHosts(t *testing.T) {
	root := t.TempDir()
	put := func(name, mirror string) { write(t, root, name, "[host.\""+mirror+"]\n") }
	put("plain.test", "https://mirror.test\"")
	put("same.test", "https://mirror.test/v2\"")
	put("port.test", "https://mirror.test:443\"")
	put("case.test", "https://Mirror.test\"")
	put("path.test", "https://mirror.test/v2/hub\"]\noverride_path = true\n[host.\"https://other.test\"")
	put("samepath.test", "https://mirror.test/v2/hub\"]\noverride_path = true\n[host.\"https://other.test\"")
	for _, setting := range []string{"skip_verify = true", "ca = []", "dial_timeout = \"3s\"", "header = { a = \"b\" }"} {
		put(setting[:2]+".test", "https://mirror.test\"]\n"+setting+"\n[host.\"https://other.test\"")
	}
	put("_default", "https://mirror.test/default\"]\nskip_verify = true\n[host.\"https://other.test\"")
	c := newCache(t, Options{Dirs: []string{root}})
	key := func(name string) health.Key {
		set, _ := use(t, c, name)
		k := set.Hosts()[0].Key()
		if k.Host != "https://mirror.test" || k.For != "" {
			t.Errorf("%s: got %+v", name, k)
		}
		return k
	}
	if got := key("plain.test"); got != health.KeyOf("https", "mirror.test") {
		t.Errorf("a host without any settings has %+v", got)
	}
	for a, b := range map[string]string{"plain.test": "same.test", "path.test": "samepath.test", "any.test": "another.test"} {
		if key(a) != key(b) {
			t.Errorf("%+v is not %+v", key(a), key(b))
		}
	}
	seen := map[health.Key]string{}
	for _, name := range []string{"plain.test", "port.test", "case.test", "path.test", "sk.test", "ca.test", "di.test", "he.test", "any.test"} {
		if other := seen[key(name)]; other != "" {
			t.Errorf("%s and %s have one key: %+v", name, other, key(name))
		}
		seen[key(name)] = name
	}
}
