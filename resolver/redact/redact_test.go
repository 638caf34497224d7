// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

const password = "correct horse"

func TestRawURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://user:pass@host:5000/v2/x?ns=y#z": "https://host:5000/v2/x",
		"https://host/%zz?secret":                 "https://host/%zz",
		"https://user:pa%zz@host/x?y":             "https://host/x",
		"http://[::1]:5000/v2/":                   "http://[::1]:5000/v2/",
		"user:pass@host:5000/v2/x?ns=y":           "host:5000/v2/x",
		"us_er:pa%zz@host/x#y":                    "host/x",
		"host:5000":                               "host:5000",
		"https:///user:pass@host:5000/v2/x?y":     "https://***",
		"https:////user:pass@host":                "https://***",
		"https:///user:pa%zz@host/x":              "https://host/x",
		"file:///etc/x":                           "file:///etc/x",
	} {
		if got := RawURL(raw); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

func TestReason(t *testing.T) {
	for body, want := range map[string]string{
		`{"errors":[{"code":"DENIED","message":"no"},{"code":"UNKNOWN"}]}`: "DENIED: no, UNKNOWN",
		"quota\nexceeded": "quota exceeded",
		"<html>no</html>": "",
		"\x00\x01\x02":    "",
		"":                "",
		`{"errors":[]}`:   `{"errors":[]}`,
	} {
		if got := (&Redactor{}).Reason([]byte(body)); got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
	for text, want := range map[string]int{"x": 0, "x ": maxReason + len("…")} {
		if got := (&Redactor{}).Reason(bytes.Repeat([]byte(text), (MaxAnswer-1)/len(text))); len(got) != want {
			t.Errorf("%q: got %d bytes", text, len(got))
		}
	}
}

// Secrets may begin and end with what stands between the parts of a reason.
func TestReasonsThatEndInSecrets(t *testing.T) {
	for _, secret := range []string{"s3cret:", ":s3cret", "s3cret ", " s3cret", "s3cret: ", ", s3cret"} {
		var r Redactor
		r.AddCredentials("alice", secret)
		for document, want := range map[string]string{
			`{"errors":[{"code":"DENIED","message":"%s"}]}`:            "DENIED: ***",
			`{"errors":[{"message":"%s"},{"code":"UNKNOWN"}]}`:         "***, UNKNOWN",
			`{"errors":[{"code":"%s"}]}`:                               "***",
			`{"errors":[{"code":"%[1]s","message":"%[1]s is wrong"}]}`: "***: *** is wrong",
		} {
			if got := r.Reason(fmt.Appendf(nil, document, secret)); got != want {
				t.Errorf("%q in %s: got %q", secret, document, got)
			}
		}
	}
}

func TestCleanHidesBeforeAndAfter(t *testing.T) {
	var r Redactor
	r.Add("two  spaces", "a\tb c")
	for text, want := range map[string]string{
		"x two  spaces y": "x *** y",
		"a\tb c":          "***",
		"(a\tb  c)":       "(a b c)",
	} {
		if got := r.Clean(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// A registry may repeat the password that a header of hosts.toml has in Base64.
func TestCleanKnowsHeaders(t *testing.T) {
	var r Redactor
	r.AddHeaders(http.Header{
		"Authorization": {"basic " + base64.StdEncoding.EncodeToString([]byte("node:s3cret:more")), "Basic not base64", "Bearer t0ken"},
		"X-Proxy":       {"proxy-word"},
	})
	const said = "node may not, with s3cret:more, S3CRET:MORE, t0ken or proxy-word"
	if got := r.Clean(said); got != "node may not, with ***, ***, *** or ***" {
		t.Errorf("got %q", got)
	}
}

// Each part of a header may be what lets the node in. Words that errors have are none.
func TestCleanKnowsPartsOfHeaders(t *testing.T) {
	for name, value := range map[string]string{
		"Cookie":           "session=Summer2024xyz; path=main",
		"Authorization":    `Token token="Summer2024xyz"`,
		"X-Auth":           " Summer2024xyz ",
		"X-Other":          "key  Summer2024xyz, x",
		"Cf-Authorization": "jwt='Summer2024xyz'",
	} {
		var r Redactor
		r.AddHeaders(http.Header{name: {value}})
		if got := r.Clean("'Summer2024xyz' has expired"); got != "'***' has expired" {
			t.Errorf("%s: got %s", value, got)
		}
	}
	for _, secret := range []string{"x7k2-9fqp-m3wd", "483-291-553", "summer-2024", "a1b2c3-xyz"} {
		var r Redactor
		r.AddHeaders(http.Header{"X-Key": {"id=1; key=" + secret}})
		if got := r.Clean(secret + " has expired"); got != "*** has expired" {
			t.Errorf("got %s", got)
		}
	}
	var r Redactor
	r.AddHeaders(http.Header{
		"X-Hosts":       {"registry1.example.test:5000, mirror, x"},
		"X-Types":       {"application/vnd.oci.image.manifest.v1+json; application/json"},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=x, Signature=y, repository=team/app"},
		"User-Agent":    {"containerd/v2.4.0 (linux)"},
		"X-Meta":        {"region=eu-central-1; zone=eu-central-1a; node=k8s-node-17"},
	})
	const said = `registry.eu-central-1.test: eu-central-1a: k8s-node-17: registry1.example.test:5000: no credential for repository team/app: content type "application/vnd.oci.image.manifest.v1+json", signature AWS4-HMAC-SHA256, containerd/v2.4.0`
	if got := r.Clean(said); got != said {
		t.Errorf("got %s", got)
	}
}

// Secrets are tenants' input.
func TestCleanOddSecrets(t *testing.T) {
	for what, secret := range map[string]string{
		"long":           strings.Repeat("a+", 1<<20),
		"not text":       "\xff\xfe\x00abc",
		"only bytes":     "\xff\xff\xff\xff\xff",
		"a pattern":      "(a|b)*.[",
		"one that grows": "İİİİ",
	} {
		var r Redactor
		r.AddCredentials("alice", secret)
		r.AddToken("Bearer " + strings.Repeat("x", 3_000))
		if got := r.Clean("nothing of it"); got != "nothing of it" {
			t.Errorf("%s: got %q", what, got)
		}
		want := "it is ***!"
		if len(secret) > maxCleaned {
			want = "it is…"
		}
		if got := r.Clean("it is " + secret + "!"); got != want {
			t.Errorf("%s: got %q", what, got)
		}
		if got := r.Clean(strings.Repeat("x", 3_000)); got != "***" {
			t.Errorf("%s: the token: %q", what, got)
		}
		if r.Texts().In("nothing of it") || !r.Texts().In("it is "+secret+"!") || !r.Texts().In(strings.Repeat("x", 3_000)) {
			t.Errorf("%s is not known", what)
		}
	}
}

// Storage services repeat by what a URL was signed. Of very many URLs the last ones are known.
func TestCleanKnowsQueries(t *testing.T) {
	var r Redactor
	add := func(signature string) {
		r.AddURL(&url.URL{Host: "storage.test", RawQuery: "expires=3600&signature=" + url.QueryEscape(signature)}, "")
	}
	for i := range 1000 {
		add(fmt.Sprintf("a/signature+of=%d", i))
	}
	add(strings.Repeat("x", 1<<10))
	for text, want := range map[string]string{
		"in 3600s: a/signature+of=999":     "in 3600s: ***",
		"a%2Fsignature%2Bof%3D999&x=y":     "***&x=y",
		"of " + strings.Repeat("x", 1<<10): "of ***",
		"a/signature+of=1!":                "a/signature+of=1!",
	} {
		if got := r.Clean(text); got != want {
			t.Errorf("%.100s: got %s", text, got)
		}
	}
	if r.queries.size > maxQueries {
		t.Errorf("%d bytes are kept", r.queries.size)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("Get \"https://user:" + password + "@host/path?token=abc#x\": EOF")
	f.Add("a\nb\x00c\u2028d https://h?" + password)
	f.Add(strings.Repeat("é", MaxText))
	f.Fuzz(func(t *testing.T, text string) {
		var r Redactor
		r.AddCredentials("alice", password)
		r.AddToken("Bearer token-1")
		got := r.Clean(text)
		for _, secret := range []string{password, "token-1"} {
			if strings.Contains(got, secret) {
				t.Errorf("%q still has %q", got, secret)
			}
		}
		if strings.ContainsAny(got, "\n\r\x00\x1b") || !utf8.ValidString(got) || len(got) > MaxText+len("…") {
			t.Errorf("got %q", got)
		}
	})
}

// Hosts choose URLs and headers: of long ones nothing is told, since what is cut off may part a secret.
func TestLongURLsAndHeaders(t *testing.T) {
	var r Redactor
	r.Add("correct-horse")
	long := &url.URL{Scheme: "https", Host: "storage.test", Path: "/correct-horse" + strings.Repeat("a", 400), RawQuery: strings.Repeat("a", 4_000)}
	if got := r.URL(long); got != "https://storage.test/***"+strings.Repeat("a", 400) || !r.TellsHost(long) {
		t.Errorf("got %s", got)
	}
	long.Path += strings.Repeat("a", maxURL)
	if got := r.URL(long); got != "https://***" || !r.TellsHost(long) {
		t.Errorf("got %s", got)
	}
	for _, u := range []*url.URL{
		{Scheme: "https", Host: "storage.test", Path: "/" + strings.Repeat("a", maxKnown)},
		{Scheme: "https", Host: "storage.test", RawQuery: strings.Repeat("a", maxKnown)},
		{Scheme: "https", User: url.User(strings.Repeat("a", maxKnown)), Host: "correct-horse"},
	} {
		if got := r.URL(u); r.TellsHost(u) || got != "https://***" {
			t.Errorf("got %.100s", got)
		}
	}
	if text := strings.Repeat("a", maxKnown+1); !r.Texts().Knows(text) || !r.Texts().Crosses(text, 1) || r.Texts().Knows(text[1:]) || r.Texts().Crosses(text[1:], 1) {
		t.Error("what is too long to be searched is taken for something without a secret")
	}
}

// A password of some kilobytes may be in a URL that a host redirects to, whole or escaped, from the host's name on.
func TestLongPasswordsInURLs(t *testing.T) {
	var long strings.Builder
	for i := range 300 {
		fmt.Fprintf(&long, "x%06dy", i)
	}
	var r Redactor
	r.AddCredentials("AWS", "first.part/"+long.String())
	for plain := range 3 { // wherever an escape is when a text ends
		var path strings.Builder
		for i, b := range []byte(long.String()) {
			if i < plain {
				path.WriteByte(b)
			} else {
				fmt.Fprintf(&path, "%%%02X", b)
			}
		}
		u, err := url.Parse("http://first.part/" + path.String())
		if err != nil {
			t.Fatal(err)
		}
		if r.TellsHost(u) || strings.Contains(r.URL(u), "first") || strings.Contains(r.Clean(`Get "`+u.String()+`": no such host`), "first") {
			t.Errorf("a part of the password is told of %.30s…", u)
		}
	}
}
