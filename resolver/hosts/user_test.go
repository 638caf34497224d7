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
	const host = "https:///user:hush@mirror.test:5000"
	for text, right := range map[string]bool{
		"[host.\"" + host + "\"]\n":                               false,
		"[host.\"" + host + "\"]\ndial_timeout = \"5\"\n":         false,
		"[host.\"/user:hush@mirror.test\"]\n":                     false,
		"[host.\"\"]\n":                                           false,
		"server = \"" + host + "\"\ncapabilities = [\"fly\"]\n":   false,
		"server = \"" + host + "\"\nserver = \"" + host + "\"\n":  false,
		"server = \"" + host + "\"\n":                             true, // the registry's own name counts
		"server = \"https://\"\n[host.\"https://mirror.test\"]\n": true,
	} {
		_, err := parse("/etc/certs.d/registry.test", []byte(text))
		if (err == nil) != right || err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", text, err)
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
