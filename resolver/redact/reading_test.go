// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// encodings are what a text looks like where it is repeated: in a form, a path, a document, a
// page, or in quotes, and in two of them.
func encodings(text string) (all []string) {
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	escaped, _ := json.Marshal(text)
	unquoted := func(s string) string { return s[1 : len(s)-1] }
	once := []string{
		text, url.QueryEscape(text), url.PathEscape(text), (&url.URL{Path: "/" + text}).EscapedPath()[1:],
		unquoted(string(escaped)), unquoted(strings.TrimSpace(plain.String())),
		unquoted(strconv.Quote(text)), unquoted(strconv.QuoteToASCII(text)),
		strings.ReplaceAll(unquoted(string(escaped)), "/", `\/`), // as PHP writes documents
	}
	for _, text := range once {
		all = append(all, text, unquoted(strconv.Quote(text)), url.PathEscape(text))
	}
	for _, text := range all {
		all = append(all, html.EscapeString(text))
	}
	return all
}

// Secrets that were sent come back in forms, documents, quotes and other cases.
func TestCleanKnowsEncodings(t *testing.T) {
	const secret = `s3cret: %&+/=?"\<é🔑>`
	var r Redactor
	r.AddCredentials("alice", secret)
	for _, text := range append(encodings(secret),
		base64.StdEncoding.EncodeToString([]byte("alice:"+secret)),
		base64.URLEncoding.EncodeToString([]byte("alice:"+secret)),
		strings.ToUpper(secret), strings.ToLower(url.QueryEscape(secret)),
		fmt.Sprintf("%q", []string{secret}),
	) {
		if got := strings.Trim(r.Clean(text), `["=]`); got != "***" {
			t.Errorf("%s: got %s", text, got)
		}
	}
	// Half a secret would not be found.
	for n := range maxReason + 10 {
		if got := r.Clean(r.Reason([]byte(strings.Repeat("x", n) + secret))); strings.Contains(got, "s3") {
			t.Fatalf("after %d bytes: %s", n, got)
		}
	}
}

// Tokens come back in the encodings in which passwords do.
func TestCleanKnowsEncodingsOfTokens(t *testing.T) {
	const token = "djE6bm9ib2R5/AbC+dEf=="
	var r Redactor
	r.AddToken("Bearer " + token)
	r.AddCredentials("alice", "ÿþ?>~~password")
	basic := base64.StdEncoding.EncodeToString([]byte("alice:ÿþ?>~~password"))
	for _, text := range append(encodings(token), strings.TrimRight(basic, "=")) {
		if got := r.Clean("you sent " + text + "!"); got != "you sent ***!" {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

// Servers trim what files end with, and take UTF-8 for Latin-1, or answer in that. Base64 is told
// with its padding and without.
func TestCleanKnowsSpellings(t *testing.T) {
	for said, secret := range map[string]string{
		"s3cret word":              "s3cret word\n",
		"s3cret\nword":             "  s3cret\nword\r\n",
		"GehÃ¤use":                 "Gehäuse",
		"gehã¤USE":                 "Gehäuse",
		"Geh\xe4use":               "Gehäuse",
		"Geh%E4use":                "Gehäuse",
		"Geh\ufffduse":             "Gehäuse",
		"%D0%9B%D1%8E%D0%B1%D0%B8": "Люби",
		"Ð\u009bÑ\u008eÐ±Ð¸":       "Люби\n",
	} {
		var r Redactor
		r.AddCredentials("alice", secret)
		if got := r.Clean("not with " + said + ", alice"); got != "not with ***, alice" {
			t.Errorf("%q: got %s", said, got)
		}
		if !r.Texts().In("http://" + said + ".test/") {
			t.Errorf("%q is not known", said)
		}
	}
	var r Redactor
	r.AddToken("Bearer djE6bm9ib2R5OmFiYw==")
	for _, said := range []string{"djE6bm9ib2R5OmFiYw==", "djE6bm9ib2R5OmFiYw", "djE6bm9ib2R5OmFiYw%3D%3D", "djE6bm9ib2R5OmFiYw&#x3D;="} {
		if got := r.Clean("not with " + said + ", alice"); got != "not with ***, alice" {
			t.Errorf("%s: got %s", said, got)
		}
	}
}

// PHP escapes "/" and what is no ASCII, and leaves "<", ">" and "&"; Java and Python write two
// surrogates for what Go's strconv writes as \U; JavaScript leaves "!" in forms.
func TestCleanKnowsOtherLanguages(t *testing.T) {
	for secret, written := range map[string]string{
		"p&ss/word":       `p&ss\/word`,
		"pä/ss-word":      `p\u00e4\/ss-word`,
		"pass🔑wörd":       `pass\ud83d\udd11w\u00f6rd`,
		"pass\U0001f511w": `pass\U0001F511w`,
		"Summer!20 24":    `Summer!20%2024`,
		"it's \a one":     `it\'s \x07 one`,
		`a\bc%zz&nope;`:   `a\\bc%zz&nope;`,
		`50%25<\u00e4`:    `50%25\u003c\\u00e4`,
		"\xff\xfepass":    `\ufffd\ufffdpass`,
	} {
		var r Redactor
		r.AddCredentials("alice", secret)
		const said = `{"error":"alice may not with %s"}`
		if got := r.Clean(r.Reason(fmt.Appendf(nil, said, written))); got != fmt.Sprintf(said, "***") {
			t.Errorf("%s: got %s", written, got)
		}
	}
}

// Errors repeat the path to which a host redirects in the escapes that net/url has for whole
// paths.
func TestCleanKnowsPaths(t *testing.T) {
	for _, secret := range []string{"Summer!2024,xyz", "k9/Wq%pL", "a&b;c d!/e", "tok!en/one"} {
		var r Redactor
		r.AddCredentials("alice", secret)
		u, err := url.Parse("https://storage.test/x/" + strings.ReplaceAll(strings.ReplaceAll(secret, "%", "%25"), " ", "%20"))
		if err != nil {
			t.Fatal(err)
		}
		got := r.Request(&http.Request{Method: http.MethodGet, URL: u}, errors.New("refused")).Error()
		if got != "GET https://storage.test/x/***: refused" {
			t.Errorf("got %s", got)
		}
	}
}

// The user of a URL would not be found in half of it.
func TestReasonOfCutURLs(t *testing.T) {
	for n := range maxReason {
		said := strings.Repeat("x", n) + " https://robot:s3cr3t-of-the-proxy@upstream.test/v2/"
		if got := new(Redactor).Reason([]byte(said)); strings.Contains(got, "s3c") {
			t.Fatalf("after %d bytes: %s", n, got)
		}
	}
}

// Each byte of a reading comes from somewhere, in order, and what has no escapes is read as it is.
func FuzzReadings(f *testing.F) {
	f.Add(`a%25\u00e4\ud83d\udd11&amp;&#x41;\\x41\/`)
	f.Add(`%2525252525%\u12\U110000000&;&\`)
	f.Fuzz(func(t *testing.T, text string) {
		for n, as := range readings(text) {
			if n == 0 && as.text != text || n > 0 && (len(as.from) != len(as.text) || len(as.to) != len(as.text)) {
				t.Fatalf("%q: reading %d is %q", text, n, as.text)
			}
			for i := range as.text {
				at := as.place([2]int{i, i + 1})
				if at[0] < 0 || at[0] >= at[1] || at[1] > len(text) || i > 0 && n > 0 && as.from[i-1] > as.from[i] {
					t.Fatalf("%q: byte %d of reading %d is at %v", text, i, n, at)
				}
			}
		}
		if plain, err := url.PathUnescape(text); err == nil && !strings.ContainsAny(text, `\&`) && utf8.ValidString(plain) {
			if all := readings(text); text != plain && all[1].text != plain {
				t.Fatalf("%q is read as %q", text, all[1].text)
			}
		}
	})
}

// Other escapes in a document do not hide what it repeats of the query of a redirect.
func TestSignaturesInDocuments(t *testing.T) {
	var r Redactor
	r.AddURL(&url.URL{RawQuery: "sig=AbCd%2BEfGh12345678QQ"}, "")
	for _, said := range []string{`{"sig":"%s"}`, `{"path":"/a%%20b","sig":"%s"}`, `{"text":"a &amp; b","sig":"%s"}`} {
		if got, want := r.Clean(fmt.Sprintf(said, `AbCd\u002BEfGh12345678QQ`)), fmt.Sprintf(said, "***"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
