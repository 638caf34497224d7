// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// Tokens of which a registry takes each once, so that each request gets another one, are kept no longer than they
// are of use: long ones, and then a short one, which stays.
func TestTokensThatAreTakenOnce(t *testing.T) {
	const (
		repositories, checks = 40, 18
		bytes                = 60 << 10 // of a token
		most                 = 16 << 20 // twice what may be kept
	)
	var n fakeNet
	issued, taken := 0, map[string]bool{}
	n.set("auth.test", func(req *http.Request) (*http.Response, error) {
		issued++
		length := bytes
		if issued%checks == 0 {
			length = 1
		}
		return answer(req, http.StatusOK, nil, fmt.Sprintf(`{"access_token":"%d-%s","expires_in":60}`, issued, strings.Repeat("X", length))), nil
	})
	n.set(registryName, func(req *http.Request) (*http.Response, error) {
		token, _, _ := strings.Cut(req.Header.Get("Authorization"), "-")
		if token != "" && !taken[token] {
			taken[token] = true
			return manifestAnswer(req), nil
		}
		return answering(401, "WWW-Authenticate", `Bearer realm="http://auth.test/token",error="invalid_token"`)(req)
	})
	r := newResolver(t, fakeOptions(n.roundTrip, registryName))
	before := heap()
	for i := range repositories {
		for range checks {
			checkOnce(t, r, Query{Reference: fmt.Sprintf("%s/team/app%d:v1", registryName, i), Credentials: alice})
		}
	}
	clear(taken)
	kept := heap() - before
	if issued != repositories*checks || kept > most {
		t.Errorf("of %d tokens %d MiB are kept", issued, kept>>20)
	}
	runtime.KeepAlive(r)
}
