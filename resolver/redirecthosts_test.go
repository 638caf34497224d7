// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

type cutShort struct{ io.Reader }

func (b cutShort) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// A registry sends a layer byte by byte, and redirects each second request to a host of another name, which is
// not available: however often it does so, that leaves nothing in memory.
func TestHostsThatARegistryRedirectsToAreBounded(t *testing.T) {
	n := 0
	rt := func(req *http.Request) (*http.Response, error) {
		switch {
		case isProbe(req):
			return answer(req, http.StatusUnauthorized, nil, ""), nil
		case req.URL.Host != registryName:
			return answer(req, http.StatusServiceUnavailable, http.Header{"Retry-After": {"100"}}, ""), nil
		}
		if n++; n%2 == 0 {
			label := strings.Repeat("x", 60)
			to := fmt.Sprintf("http://%d.%s.%s.%s.test/x", n, label, label, label)
			return answer(req, http.StatusTemporaryRedirect, http.Header{"Location": {to}}, ""), nil
		}
		from, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(req.Header.Get("Range"), "bytes="), "-"))
		resp := answer(req, http.StatusPartialContent, http.Header{"Content-Range": {fmt.Sprintf("bytes %d-%d/%d", from, wholeSize-1, wholeSize)}}, "")
		resp.Body, resp.ContentLength = io.NopCloser(cutShort{strings.NewReader("x")}), int64(wholeSize-from)
		return resp, nil
	}
	if kept := keptOfEachByte(t, fakeOptions(rt, registryName), 2500); kept > 100 {
		t.Errorf("after %d requests, each host that it has redirected to has left %d bytes", n, kept)
	}
}
