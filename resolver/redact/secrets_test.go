// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/containerd/log"
)

// Docker's fetcher logs the headers of answers, in lower case. A host may have the beginning of a
// secret in a name, and the end in the value: those that are known are logged.
func TestLogsHaveKnownHeadersOfAnswers(t *testing.T) {
	var r Redactor
	r.AddCredentials("alice", "summer2024xyz:more")
	e := &log.Entry{Data: log.Fields{
		"response.header.summer2024xyz": "more", "response.header.x-more": "y", "url": "y",
		"response.header.via": "a proxy", "response.header.www-authenticate.1": "summer2024xyz:more",
	}}
	want := log.Fields{"url": "y", "response.header.via": "a proxy"}
	if got := r.entry(e).Data; !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// The value of a query that is a part of a secret does not uncover the rest of it.
func TestPartsOfSecrets(t *testing.T) {
	var r Redactor
	const token = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.payload.signature"
	r.AddURL(&url.URL{RawQuery: "a=" + token[:20] + "&b=" + strings.Repeat("y", 20)}, "")
	r.AddURL(&url.URL{RawQuery: "a=" + strings.Repeat("y", 20) + "abcdef"}, "")
	r.AddToken("Bearer " + token)
	if got := r.Clean("x " + token + " " + strings.Repeat("y", 20) + "abcdef z"); got != "x *** *** z" {
		t.Errorf("got %s", got)
	}
}

// Long texts, such as those of an image, have short secrets by chance, and words that some take for passwords.
func TestLongTexts(t *testing.T) {
	var r Redactor
	r.Add("abc1234", "postgres", "abcd1234", "correct-horse-battery", "post gres")
	for text, want := range map[string]bool{
		"/app": false, "abc1234": false, "/var/lib/postgresql": false, "ABCD1234": true, "/abcd%31234": true,
		"/correct-horse-battery/x": true, "/correct-horse": false, "post+gres": true,
	} {
		if got := r.LongTexts().In(text); got != want {
			t.Errorf("%s: got %v", text, got)
		}
		if !want && text != "/app" && text != "/correct-horse" && !r.Texts().In(text) {
			t.Errorf("%s: others do not look for short ones", text)
		}
	}
}

// What an ordinary header has, images have as well: names of hosts, of regions and of nodes. Where it lets somebody in, by
// this header or another, it is a secret.
func TestLongTextsAndOrdinaryHeaders(t *testing.T) {
	const host, region, words = "harbor.example.com", "eu-central-1", "correct-horse-battery"
	add := func(name, value string) func(*Redactor) {
		return func(r *Redactor) { r.AddHeaders(http.Header{name: {value}}) }
	}
	for what, tc := range map[string]struct {
		text string
		add  []func(*Redactor)
		want bool
	}{
		"a host":               {host, []func(*Redactor){add("X-Forwarded-Host", " "+host)}, false},
		"where it is from":     {"https://" + host, []func(*Redactor){add("Origin", "https://"+host)}, false},
		"a zone":               {region + "a", []func(*Redactor){add("X-Zone", region+"a")}, false},
		"one of two words":     {region, []func(*Redactor){add("X-Meta", "region "+region)}, false},
		"words":                {words, []func(*Redactor){add("X-Team", words), add("X-Other", words)}, false},
		"groups with digits":   {"2f-a7k-9q", []func(*Redactor){add("X-Team", "2f-a7k-9q")}, true},
		"what is drawn":        {"x7k2-9fqp-m3wd", []func(*Redactor){add("X-Team", "x7k2-9fqp-m3wd")}, true},
		"a part of it":         {"x7k2-9fqp-m3wd", []func(*Redactor){add("X-Team", "id=x7k2-9fqp-m3wd")}, true},
		"a cookie":             {words, []func(*Redactor){add("Cookie", words)}, true},
		"credentials":          {words, []func(*Redactor){add("Authorization", "Bearer "+words)}, true},
		"other credentials":    {words, []func(*Redactor){add("Proxy-Authorization", words)}, true},
		"a key":                {words, []func(*Redactor){add("X-Api-Key", words)}, true},
		"credentials, as well": {words, []func(*Redactor){add("X-Team", words), add("Authorization", "Bearer "+words)}, true},
		"credentials before":   {words, []func(*Redactor){add("Authorization", "Bearer "+words), add("X-Team", words)}, true},
		"a password, as well":  {words, []func(*Redactor){add("X-Team", words), func(r *Redactor) { r.AddCredentials("alice", words) }}, true},
	} {
		var session Redactor
		for _, add := range tc.add {
			add(session.ForHost())
		}
		text := "/" + strings.ToUpper(tc.text) + "/x"
		for _, r := range []*Redactor{&session, session.ForHost()} {
			if got := r.LongTexts().In(text); got != tc.want || !r.Texts().In(text) {
				t.Errorf("%s: got %v, want %v", what, got, tc.want)
			}
		}
	}
}

// A cut parts a secret, as it is or escaped, also where it is whole on either side.
func TestSecretsThatACutParts(t *testing.T) {
	var r Redactor
	r.Add("summer?more")
	for text, want := range map[string]bool{
		"":                          false,
		"/|?summer?more":            false,
		"/summer?more|":             false,
		"/sum|mer?more":             true,
		"/summer|%3Fmore":           true,
		"/summer?more/sum|mer?more": true,
		"/sum|mer?more&summer?more": true,
	} {
		before, after, _ := strings.Cut(text, "|")
		if got := r.Texts().Crosses(before+after, len(before)); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

// Users and queries may have what is not in the rest of a URL.
func TestCleanCutsUsersAndQueries(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://alice:it's-s3cret@h.test/p": EOF`:            `Get "https://h.test/p": EOF`,
		`Get "https://alice:a\u0026s3cret@h.test/p": EOF`:          `Get "https://h.test/p": EOF`,
		`Get "https://alice:a\"s3cret@h.test/p": EOF`:              `Get "https://h.test/p": EOF`,
		`Get "https://alice:a<s3cret>b'c@h.test/p": EOF`:           `Get "https://h.test/p": EOF`,
		`{"e":"https:\\/\\/alice:s3cret@h.test\\/p"}`:              `{"e":"https://h.test/p"}`,
		`{"e":"https:\/\/h.test\/bl\u00f6b?sig=s3cret"}`:           `{"e":"https://h.test/bl%5Cu00f6b"}`,
		`Get https://h.test/o?id=a@b.test\u0026sig=s3cret: 403`:    `Get https://h.test/o 403`,
		`Get 'https://h.test/p?id=a@b&f=UTF-8''x&sig=s3cret': EOF`: `Get 'https://h.test/p EOF`,
		`Get "https://h.test/p?id=a@b&f=\"x\"&sig=s3cret": EOF`:    `Get "https://h.test/p": EOF`,
		`'https://a.test/x','https://b.test/y'`:                    `'https://a.test/x','https://b.test/y'`,
		`https://a.test,https://u:s3cret@b.test/v2/`:               `https://a.test,https://b.test/v2/`,
		`(https://a.test/)(https://u:s3cret@b.test/)`:              `(https://a.test/)(https://b.test/)`,
		`https://a.test/https://u:s3cret@b.test/: 502`:             `https://a.test/https://b.test/: 502`,
		`https://a.test/p?u=https://b.test/&sig=s3cret`:            `https://a.test/p`,
		`https://u:8675309?s3cret@b.test/`:                         `https://***`,
		`https://u:8675309#s3cret@b.test/`:                         `https://***`,
		`https://a.test:5000?user=a@b.test`:                        `https://***`,
		`https://a.test:5000/v2/x?user=a@b.test`:                   `https://a.test:5000/v2/x`,
		`must begin with "https://"`:                               `must begin with "https://"`,
		`unix:///run/x.sock, C:\new\t & 50% of a@sha256:b`:         `unix:///run/x.sock, C:\new\t & 50% of a@sha256:b`,
		`Get "https://alice:it's//s3cret@h.test/p": EOF`:           `Get "https://h.test/p": EOF`,
		`Get "https://alice:s3cret#1@h.test/p": EOF`:               `Get "https://***": EOF`,
		`Get "https://alice:s3c?ret@h.test/p": EOF`:                `Get "https://***": EOF`,
		`Get "https:\/\/alice:s3cret@h.test\/p?sig=s3cret": EOF`:   `Get "https://h.test/p": EOF`,
		`Get "https://h.test/p?f=UTF-8''x&sig=s3cret": EOF`:        `Get "https://h.test/p": EOF`,
		`Get "https://h.test/p?f=\\x<y>&sig=s3cret#s3cret": EOF`:   `Get "https://h.test/p": EOF`,
		`Get "https://h.test/p?f=\"x\"&sig=s3cret": EOF`:           `Get "https://h.test/p": EOF`,
		`see 'https://h.test/p' and https://h.test?s3cret, too`:    `see 'https://h.test/p' and https://h.test too`,
		`parse "https://alice:my s3cret@h.test/p": invalid`:        `parse "https://h.test/p": invalid`,
		`parse "https://alice:my \"s3cret x@h.test": invalid`:      `parse "https://h.test": invalid`,
		`parse "https://h.test/p?sig=my s3cret": invalid`:          `parse "https://h.test/p": invalid`,
		`"https://a.test/x y https://u:my s3cret@b.test/": 502`:    `"https://a.test/x%20y%20https://b.test/": 502`,
		`"https://h.test/p is not there", says a@b.test`:           `"https://h.test/p is not there", says a@b.test`,
		`"https://h.test/p says a b and no more`:                   `"https://h.test/p says a b and no more`,
	} {
		if got := new(Redactor).Clean(text); got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

// A token server issues as many tokens as it likes, of any length.
func TestManyTokens(t *testing.T) {
	var r Redactor
	for n := 300; n >= minSecret; n-- {
		r.AddToken("Bearer " + strings.Repeat("a", n))
		r.AddToken("Bearer in use")
	}
	if got := r.Clean("harmless, in use: " + strings.Repeat("a", 3000)); got != "harmless, ***: ***" {
		t.Errorf("got %s", got)
	}
	for n := range 20 {
		r.AddToken("Bearer " + strings.Repeat("<", 60<<10+n))
	}
	if r.tokens.folded.Len() > maxTokens || r.tokens.size > maxTokenBytes {
		t.Errorf("%d tokens of %d bytes are kept", r.tokens.folded.Len(), r.tokens.size)
	}
}

func TestOverlappingSecrets(t *testing.T) {
	var r Redactor
	r.Add("abcdefgh", "efghijkl", "ABAba", "Σίσυφος")
	for text, want := range map[string]string{
		"abcdefghijkl":    "***",
		"ababaBA!":        "***!",
		"abcdefghefghijk": "***efghijk",
		"ababa-ababa":     "***-***",
		"ΣΊΣΥΦΟΣ, ok":     "***, ok",
	} {
		if got := r.Clean(text); got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

// Half a secret would not be found, so that what is cut says nothing.
func TestReasonOfCutAnswers(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	var r Redactor
	r.AddCredentials("alice", secret)
	for cut := range len(secret) {
		body := "denied:" + strings.Repeat(" ", MaxAnswer-len("denied:")-len(secret)+cut) + secret
		got := r.ReadReason(&http.Response{Body: io.NopCloser(strings.NewReader(body))})
		if strings.Contains(got, secret[:4]) {
			t.Errorf("got %s", got)
		}
	}
}

// A URL without a host, and without the slashes before that, tells no part of a secret either.
func TestURLsWithoutAHost(t *testing.T) {
	for _, secret := range []string{"summer2024?more", "summer2024#more"} {
		var r Redactor
		r.AddCredentials("alice", secret)
		u, err := url.Parse("https:/" + secret)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.URL(u); strings.Contains(got, "summer") {
			t.Errorf("%s: URL: %s", secret, got)
		}
		req := &http.Request{Method: http.MethodGet, URL: u}
		if got := r.Failed(req, errors.New("http: no Host in request URL")).Error(); strings.Contains(got, "summer") {
			t.Errorf("%s: Failed: %s", secret, got)
		}
	}
}
