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
