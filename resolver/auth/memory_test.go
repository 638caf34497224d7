// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
)

// Secrets count with all the spellings by which errors are searched for them, also where no token was given for them.
func TestMemoryOfRefusedSecrets(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	c := NewCache()
	before := heap()
	for i := range 40 {
		secret := fmt.Sprintf(" %d\n ä%s\n ", i, strings.Repeat("ü", 2400))
		a := newAuthorizerBy(&server{}, c, Scope{Configuration: &hosts, Repository: repository}, fixed(username, secret))
		err := a.AddResponses(t.Context(), []*http.Response{{
			StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {wanted}},
			Request: &http.Request{Method: http.MethodHead, URL: &url.URL{Scheme: "http", Host: registryName}, Header: http.Header{}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if kept := heap() - before; int64(c.bytes) < kept*3/4 {
		t.Errorf("%d bytes are kept, and %d are counted", kept, c.bytes)
	}
	c.Forget(&hosts)
	if c.bytes != 0 {
		t.Errorf("%d bytes are counted, of nothing", c.bytes)
	}
}
