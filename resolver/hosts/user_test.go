// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"strings"
	"testing"
)

// Errors name a host without its user, also where the file spells it without a scheme.
func TestErrorsTellNoUser(t *testing.T) {
	for _, text := range []string{
		"[host.\"us_er:hush@mirror.test\"]\ncapabilities = [\"fly\"]",
		"[host.'user:hu\"sh@hush@mirror.test']\nca = 1",
		"[host.\"https://user:hush@mirror.test\"]\ncapabilities = [\"fly\"]",
		"[host.\"us_er:hush%zz@mirror.test\"]",
		"server = \"us_er:hush%zz@mirror.test\"",
		"[host.\"https://user:a hush@mirror.test\"]",
		"[host.'https://user:a \"hush x@mirror.test']\ncapabilities = [\"fly\"]",
		"[host.\"https://user:a\\u0020hush@mirror.test\"]\ndial_timeout = 'x'",
		"[host.\"user:a hush@mirror.test\"]\nca = 1",
		"[host.\"https://user:a hush@mirror.test\"]\n[host.\"https://user:a hush@mirror.test\"]",
		"[host]\n\"https://user:a hush@mirror.test\".ca = 1\n\"https://user:a hush@mirror.test\" = 1",
		"[host]\n\"https://user:a hush@mirror.test\" = 1\n[host.\"https://user:a hush@mirror.test\".header]\nx = 1",
		"[host]\n\"https://user:a hush@mirror.test\" = 1\n\"https://user:a hush@mirror.test\".ca = 1",
		"[host.\"https://user:a hush@mirror.test\"]\n[[host.\"https://user:a hush@mirror.test\"]]",
	} {
		_, err := parse("/etc/certs.d/registry.test", []byte(text))
		if err == nil {
			t.Errorf("%s is right", text)
		} else if told := err.Error(); strings.Contains(told, "hush") || strings.Contains(told, "hu\\") || !strings.Contains(told, "mirror.test") {
			t.Errorf("%s: %s", text, told)
		}
	}
}

// Nor where a slash too many has it stand in the path of a URL: nobody could be asked by that.
func TestUserBehindAThirdSlash(t *testing.T) {
	for _, host := range []string{
		"https:///user:hush@mirror.test:5000", "https:///user:hush?word@mirror.test:5000", "https:///user:hush#word@mirror.test",
		"https:////user:hush?x@mirror.test", "https:///user:hush%zz?a@mirror.test", "/user:hush@mirror.test", "/user:hush?word@mirror.test",
	} {
		for _, text := range []string{
			"[host.\"" + host + "\"]\ndial_timeout = \"5\"\n",
			"[host.\"" + host + "\"]\nca = 1\n",
			"server = \"" + host + "\"\ncapabilities = [\"fly\"]\n",
			"server = \"" + host + "\"\nserver = \"" + host + "\"\n",
		} {
			_, err := parse("/etc/certs.d/registry.test", []byte(text))
			if err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// Mirrors without a name, or without a scheme where the name begins as one does, are nobody's to ask, as in containerd, and no mistake for
// which the whole file would be passed over.
func TestMirrorsWithoutAName(t *testing.T) {
	for _, host := range []string{"", "https:///mirror.test", "http-cache.test:5000", "httpd.test", "httpd.test/path"} {
		if _, err := parse("/etc/certs.d/registry.test", []byte("server = \"https://registry.test\"\n[host.\""+host+"\"]\n")); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// A header's value that looks like a number, of which somebody has forgotten the quotes, or the table
// around it, is in no error.
func TestErrorsTellNoHeaderThatIsANumber(t *testing.T) {
	for _, value := range []string{"61e83219", "6_1e83219", "1234567890123456789012", "12345678", "1.2345678", "0xfedcba98", "0xfedcba9876543210f"} {
		for _, text := range []string{
			"[host.\"https://mirror.test\".header]\n  X-Token = " + value + "\n",
			"[host.\"https://mirror.test\".header]\n  X-Token = [\"a\", " + value + "]\n",
			"[host.\"https://mirror.test\"]\nheader = " + value + "\n",
			"header = [" + value + "]\n",
		} {
			_, err := parse("/etc/certs.d/registry.test", []byte(text))
			digits := strings.TrimLeft(strings.ReplaceAll(value, "_", ""), "0x")
			if err == nil || strings.Contains(err.Error(), value) || strings.Contains(err.Error(), digits) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
