// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"net/url"
	"testing"
)

// Another port of the machine is another host: also the default port of the other scheme.
func TestOtherPortIsNotHome(t *testing.T) {
	for _, test := range []struct {
		first, to string
		home      bool
	}{
		{"https://registry.test", "https://Registry.test:443/elsewhere", true},
		{"https://registry.test", "https://eu.registry.test", true},
		{"https://registry.test:5000", "https://eu.registry.test:05000", true},
		{"https://registry-1.docker.io", "https://docker.io", true},
		{"http://registry.test", "https://registry.test", true},
		{"http://registry.test:80", "https://eu.registry.test:443", true},
		{"http://registry.test:5000", "https://registry.test:5000", true},
		{"https://registry.test", "http://registry.test", false},
		{"https://registry.test", "http://registry.test:443", false},
		{"https://registry.test", "https://registry.test:80", false},
		{"https://registry.test:80", "https://registry.test", false},
		{"http://registry.test", "http://registry.test:443", false},
		{"http://registry.test:5000", "https://registry.test", false},
		{"https://registry.test", "https://eu.registry.test:80", false},
		{"https://registry.test", "https://eu.registry.test:5000", false},
		{"https://registry.test", "https://notregistry.test", false},
		{"https://eu.registry.test", "https://registry.test", false},
	} {
		to, _ := url.Parse(test.to)
		first, _ := url.Parse(test.first)
		if AtHome(to, first) != test.home {
			t.Errorf("from %s to %s: at home is %v", first, to, !test.home)
		}
		asked := &http.Request{URL: first}
		if redirected := (&http.Request{URL: to, Response: &http.Response{Request: asked}}); Strayed(redirected) == test.home {
			t.Errorf("from %s to %s: strayed is %v", first, to, test.home)
		}
	}
}

// What another port of the host answers is not the host's word, and nobody's on its way back.
func TestOwnAnswers(t *testing.T) {
	var last *http.Request
	for _, step := range []struct {
		url string
		own bool
	}{
		{"https://registry.test/v2/", true},
		{"https://registry.test:443/v2/other/", true},
		{"https://eu.registry.test/v2/", false},    // at home, but another host
		{"https://registry.test/v2/third/", false}, // by whom it may be led to what it refuses
		{"https://registry.test:80/v2/", false},
		{"https://registry.test/v2/", false}, // by whom another one has led to it
	} {
		req := &http.Request{}
		req.URL, _ = url.Parse(step.url)
		if last != nil {
			req.Response = &http.Response{Request: last}
		}
		if Own(req) != step.own {
			t.Errorf("%s is own: %v", step.url, !step.own)
		}
		last = req
	}
}

// Where a request with https:// was sent in clear, that very address in clear is the host that was asked, and nothing else is.
func TestSentInClear(t *testing.T) {
	for _, test := range []struct {
		asked, sent, to string
		own             bool
	}{
		{"https://registry.test:5000/", "http://registry.test:5000/", "http://registry.test:5000/other", true},
		{"https://registry.test/", "http://registry.test/", "http://registry.test:80/other", true},
		{"https://registry.test:443/", "http://registry.test:443/", "http://registry.test:443/other", true},
		{"https://registry.test:5000/", "http://registry.test:5000/", "http://eu.registry.test:5000/", false},
		{"https://registry.test:5000/", "http://registry.test:5000/", "http://registry.test:5001/", false},
		{"https://registry.test:5000/", "http://registry.test:5000/", "http://registry.test/", false},
		{"https://registry.test/", "http://registry.test/", "http://registry.test:443/", false},
		{"https://registry.test:5000/", "http://registry.test:5000/", "http://other.test/", false},
		{"https://registry.test:5000/", "https://registry.test:5000/", "http://registry.test:5000/other", false},
		{"https://registry.test/", "http://other.test/", "http://registry.test/other", false},
	} {
		asked, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, test.asked, nil)
		sent, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, test.sent, nil)
		first := Asked(asked, &http.Response{Request: sent})
		to, _ := http.NewRequestWithContext(first.Context(), http.MethodGet, test.to, nil)
		to.Response = &http.Response{Request: first}
		if Own(to) != test.own || StaysHome(to) != test.own || Strayed(to) == test.own || LosesTLS(to) == test.own {
			t.Errorf("%s, sent as %s, leads to %s: its own is not %v", test.asked, test.sent, test.to, test.own)
		}
		next, _ := http.NewRequestWithContext(first.Context(), http.MethodGet, test.asked, nil)
		to.Response.Request = next // which was not sent in clear
		if Own(to) || !LosesTLS(to) {
			t.Errorf("from %s, sent by TLS, to %s: its own", test.asked, test.to)
		}
	}
}
