// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// A host that writes the beginning of an escape right before a secret that is escaped as in a path, a
// string or a page has it hidden all the same.
func TestEscapesBeforeSecrets(t *testing.T) {
	for _, tc := range []struct{ secret, text string }{
		{"abc/def?ghij klm", "denied %2abc%2Fdef%3Fghij%20klm"},
		{"correct horse", "denied %2correct%20horse."},
		{"correct horse", "denied %252correct%2520horse."},
		{"abc/def?ghij klm", "denied %2%61%62%63%2Fdef%3Fghij%20klm"},
		{`nbc"def"ghijklm`, `denied \nbc\"def\"ghijklm`},
		{`U0001f600"def"ghi`, `denied \U0001f600\"def\"ghi`},
		{`#38;bc<def>ghijklm`, `denied &#38;bc&lt;def&gt;ghijklm`},
	} {
		var r Redactor
		r.AddCredentials("alice", tc.secret)
		got := r.Clean(tc.text)
		if rest := tc.text[len(tc.text)-6:]; strings.Contains(got, rest) || !strings.Contains(got, hidden) {
			t.Errorf("the secret %q is shown: %s", tc.secret, got)
		}
		if !r.Texts().In(tc.text) {
			t.Errorf("nobody notices %q in %s", tc.secret, tc.text)
		}
	}
}

// So is what signs the URL of a storage service.
func TestEscapesBeforeSignatures(t *testing.T) {
	for _, text := range []string{
		"denied %2abc%2Fdef%2Bghijklmnop%3D%3D", "denied %252abc%252Fdef%252Bghijklmnop%253D%253D",
		"denied %2ABC%2fDEF%2bghijklmnop%3d%3d", "denied abc%2Fdef%2Bghijklmnop%3D%3D",
	} {
		var r Redactor
		r.AddURL(&url.URL{Host: "storage.test", RawQuery: "sig=" + url.QueryEscape("abc/def+ghijklmnop==")}, "")
		if got := r.Clean(text); strings.Contains(got, "ghijk") || !r.Texts().Knows(text) {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// The same holds where such a text is cut in the middle of the secret.
func TestEscapesBeforeSecretsThatAreCut(t *testing.T) {
	var r Redactor
	r.AddCredentials("alice", "correct horse")
	text := "denied %2" + url.PathEscape("correct horse")
	for _, cut := range []int{len("denied %2corr"), len("denied %2correct"), len("denied %2correct%20ho")} {
		if got := r.hide(text[:cut], true); strings.Contains(got, "orr") {
			t.Errorf("cut behind %d bytes: %s", cut, got)
		}
	}
}

// To look behind escapes takes no longer, whatever secrets and texts have been made up.
func BenchmarkEscapesBeforeSecrets(b *testing.B) {
	var r Redactor
	for n := range maxTokens {
		r.AddToken(fmt.Sprintf("Bearer c%s%d", strings.Repeat("c", 4<<10), n))
	}
	text := strings.Repeat("%2c", maxCleaned/3)
	for b.Loop() {
		r.Clean(text)
	}
}
