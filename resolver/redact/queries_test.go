// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
)

// Neither the memory nor the time that queries take is the registry's.
func TestQueriesAreBounded(t *testing.T) {
	var r Redactor
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 100 {
		r.AddURL(&url.URL{RawQuery: strings.Repeat("k", 1<<20) + fmt.Sprintf("=value-of-more-than-16-bytes-%d", i)}, "")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 10<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	var b strings.Builder
	for i := range 9_000 {
		fmt.Fprintf(&b, "&k=%%20%016d", i)
	}
	for range 3 {
		r.AddURL(&url.URL{RawQuery: b.String()[1:]}, "")
	}
	if known := len(r.queries.values()); known != maxValues {
		t.Errorf("%d values are known", known)
	}
	runtime.KeepAlive(&r)
}

// quay.io redirects to its CDN with the names of a repository, storage services with the type of the
// content and the name of an algorithm. None of that signs anything, and errors have to say it. All
// that may be drawn or computed is hidden, and a passphrase by its name.
func TestQueriesOfNames(t *testing.T) {
	const asked = "registry-7.example.test:5000/v2/team/app-2026-nightly/manifests/sha256:0123456789abcdef"
	for query, value := range map[string]string{
		"region=us-east-1&namespace=prometheus-operator&repo_name=prometheus-operator":   "prometheus-operator",
		"response-content-type=application%2Foctet-stream":                               "application/octet-stream",
		"X-Amz-Algorithm=AWS4-HMAC-SHA256":                                               "AWS4-HMAC-SHA256",
		"X-Goog-Algorithm=GOOG4-RSA-SHA256":                                              "GOOG4-RSA-SHA256",
		"repo_name=team%2Fapp-2026-nightly":                                              "team/app-2026-nightly",
		"digest=sha256:0123456789abcdef":                                                 "sha256:0123456789abcdef",
		"response-content-type=application%2Fvnd.docker.distribution.manifest.v2%2Bjson": "application/vnd.docker.distribution.manifest.v2+json",
		"response-content-type=application%2Fvnd.docker.image.rootfs.diff.tar.gzip":      "application/vnd.docker.image.rootfs.diff.tar.gzip",
		"X-Artifactory-repositoryKey=docker-production-local":                            "docker-production-local",
		"X-Artifactory-projectKey=production":                                            "production",
		"X-Artifactory-artifactPath=team%2Fapp-2026-nightly%2Fmanifest.json":             "team/app-2026-nightly/manifest.json",
		"service=registry-7.example.test:5000":                                           "registry-7.example.test:5000",
		"from=https%3A%2F%2Fregistry-7.example.test:5000%2Fv2%2Fteam%2Fapp-2026-nightly": "https://registry-7.example.test:5000/v2/team/app-2026-nightly",
		"X-Amz-Date=20241123T035000Z":                                                    "20241123T035000Z",
	} {
		var r Redactor
		r.AddURL(&url.URL{Scheme: "https", Host: "cdn.test", RawQuery: query}, asked)
		if got, want := r.Clean("no "+value+" here"), "no "+value+" here"; got != want {
			t.Errorf("%q: %q became %q", query, want, got)
		}
	}
	for query, value := range map[string]string{
		"a=qwertyuiopasdfgh":                         "qwertyuiopasdfgh", // letters, drawn
		"a=prometheus-operator-v2":                   "prometheus-operator-v2",
		"a=Prometheus-Operator":                      "Prometheus-Operator",
		"a=correct+horse+battery":                    "correct horse battery",
		"a=AWS4-HMAC-SHA256-not":                     "AWS4-HMAC-SHA256-not",
		"a=app-2026-nightly/manifests":               "app-2026-nightly/manifests",
		"Token=correct-horse-battery":                "correct-horse-battery",
		"X-Amz-Security-%54oken=correct-horse-horse": "correct-horse-horse",
		"%zz=correct-horse-battery":                  "correct-horse-battery",
		"correct-horse-battery":                      "correct-horse-battery", // of no name
		"a=application/AbCdEfGhIjKl":                 "application/AbCdEfGhIjKl",
		"a=application/vnd.abc0123456":               "application/vnd.abc0123456",
		"a=20241123T035000Z0":                        "20241123T035000Z0",
		"a=https://registry.test/v2/app-Ab3dEf9h":    "https://registry.test/v2/app-Ab3dEf9h", // nothing that was asked
		"a=ftp://registry.test/v2/app":               "ftp://registry.test/v2/app",
	} {
		var r Redactor
		r.AddURL(&url.URL{Scheme: "https", Host: "cdn.test", RawQuery: query}, "registry.test/v2/app/manifests/1")
		if got := r.Clean("no " + value + " here"); got != "no *** here" {
			t.Errorf("%q: got %q", query, got)
		}
	}
}

// Mirrors are asked with the registry's name, which they may say as well, alone or behind what was asked.
func TestQueriesOfWhatAMirrorWasAsked(t *testing.T) {
	const asked = "mirror.test/v2/team/app-2026-nightly/blobs/sha256:0123456789abcdef?ns=registry-7.example.test%3A5000"
	for query, value := range map[string]string{
		"from=" + url.QueryEscape(asked[len("mirror.test"):]):                              asked[len("mirror.test"):],
		"upstream=registry-7.example.test":                                                 "registry-7.example.test",
		"path=team%2Fapp-2026-nightly%2Fsha256:0123456789abcdef":                           "team/app-2026-nightly/sha256:0123456789abcdef",
		"from=" + url.QueryEscape("https://"+asked) + "&response-content-type=text%2Fhtml": "https://" + asked,
	} {
		var r Redactor
		r.AddURL(&url.URL{Scheme: "https", Host: "cdn.test", RawQuery: query}, asked)
		if r.Texts().Knows(value) {
			t.Errorf("%q: %q is a secret", query, value)
		}
	}
}

// A query that was asked may sign: what a redirect takes over of it is a secret, but not the whole of what was asked.
func TestQueriesThatSayAQuery(t *testing.T) {
	const signed, version = "cdn.test/layer?sig=0123456789abcdef.fedcba9876543210", "cdn.test/layers/0123456789abcdef?v=2023"
	for value, of := range map[string]struct {
		asked  string
		secret bool
	}{
		"0123456789abcdef.fedcba9876543210":                {signed, true},
		"0123456789abcdef":                                 {signed, true},
		"/layer?sig=0123456789abcdef":                      {signed, true},
		"https://cdn.test/layer?sig=0123456789abcdef":      {signed, true},
		"/layers/0123456789abcdef?v=2023":                  {version, false},
		"https://cdn.test/layers/0123456789abcdef?v=2023":  {version, false},
		"https://cdn.test/layers/0123456789abcdef?v=20":    {version, true},
		"https://cdn.test/layers/0123456789abcdef":         {version, false},
		"https://cdn.test/layers/0123456789abcdef?v=20231": {version, true},
	} {
		var r Redactor
		r.AddURL(&url.URL{Scheme: "https", Host: "storage.test", RawQuery: "from=" + url.QueryEscape(value)}, of.asked)
		if got := r.Texts().Knows(value); got != of.secret {
			t.Errorf("%q is a secret: %v", value, got)
		}
	}
}

// Tokens of storage services may be shorter than signatures, and a part of a value.
func TestQueriesThatSign(t *testing.T) {
	for query, value := range map[string]string{
		"token=Ab3dEf9hIj2k":                   "Ab3dEf9hIj2k",
		"X-Amz-Signature=9f86d081":             "9f86d081",
		"password=Summer2024xyz":               "Summer2024xyz",
		"hdnts=exp=1732334700~hmac=0123456789": "0123456789",
		"hdnts=exp%3D1732334700%7Ehmac%3D0123456789abcdef0123456789abcdef": "0123456789abcdef0123456789abcdef",
		"sig=djE6bm9ib2R5OmFiY2RlZmdoaWprbG0%3D":                           "djE6bm9ib2R5OmFiY2RlZmdoaWprbG0=",
	} {
		var r Redactor
		r.AddURL(&url.URL{Scheme: "https", Host: "cdn.test", RawQuery: query}, "registry.test/v2/app/manifests/1")
		for _, said := range []string{value, strings.TrimRight(value, "=")} {
			if got := r.Clean("no " + said + " here"); got != "no *** here" {
				t.Errorf("%q: got %q", query, got)
			}
		}
	}
	var r Redactor
	r.AddURL(&url.URL{RawQuery: "a=Summer2024xyz&token=Summer1"}, "")
	if got, want := r.Clean("no Summer2024xyz and no Summer1"), "no Summer2024xyz and no Summer1"; got != want {
		t.Errorf("got %q", got)
	}
}

// net/http makes a header of the user of a URL to which a host redirects. The user's name alone is
// no secret, but where it may be a token.
func TestUsersOfURLs(t *testing.T) {
	for name, c := range map[string]struct {
		user       *url.Userinfo
		said, want string
	}{
		"a password":    {url.UserPassword("storage", "s3cret"), "storage may not with S3cret", "storage may not with ***"},
		"as Basic":      {url.UserPassword("storage", "s3cret"), "Basic c3RvcmFnZTpzM2NyZXQ=", "Basic ***"},
		"a user":        {url.User("storage"), "storage may not", "storage may not"},
		"a token":       {url.User("ghp_16C7e42F292c6912E7"), "ghp_16C7e42F292c6912E7 may not", "*** may not"},
		"a long one":    {url.UserPassword("a", strings.Repeat("s", 1<<20)), strings.Repeat("s", 1<<10), strings.Repeat("s", 1<<10)},
		"none":          {nil, "nobody may", "nobody may"},
		"a line's end":  {url.UserPassword("a", "s3cret\n"), "not with s3cret, sorry", "not with ***, sorry"},
		"a short token": {url.User("ghp_16C7"), "ghp_16C7 may not", "ghp_16C7 may not"},
	} {
		var r Redactor
		r.AddURL(&url.URL{Host: "cdn.test", User: c.user}, "")
		if got := r.Clean(c.said); got != c.want {
			t.Errorf("%s: got %s", name, got)
		}
		if r.queries.size > maxQueries+maxQueries/2 {
			t.Errorf("%s: %d bytes are kept", name, r.queries.size)
		}
	}
}

// What signs a URL is hidden where it is escaped twice, whatever else the text has.
func TestSignaturesEscapedTwice(t *testing.T) {
	const signature = "kq3XvR/9aZ+c7Lp1wE5tYb=="
	u := &url.URL{Scheme: "https", Host: "storage.test", Path: "/x", RawQuery: "sig=" + url.QueryEscape(signature)}
	for _, around := range []string{"", "<Error>&amp;", `"a\"b" &amp; `} {
		for name, text := range map[string]string{
			"once": url.QueryEscape(signature), "twice": url.QueryEscape(url.QueryEscape(signature)),
			"as a path in a page in a string": strings.ReplaceAll(strings.ReplaceAll(signature, "/", "&#x2F;"), "+", "%2B"),
		} {
			var r Redactor
			r.AddURL(u, "")
			if got := r.Clean(around + text); strings.Contains(got, "kq3XvR") {
				t.Errorf("%s, behind %q: %s", name, around, got)
			}
		}
	}
}
