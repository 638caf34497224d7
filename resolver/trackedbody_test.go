// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/redact"
	"github.com/pullwarden/pullwarden/resolver/transport"
)

// What comes before the offset that was asked for is progress, and no more than that: of what
// comes after it, those bytes are that whoever reads gets.
func TestProgressBeforeTheOffset(t *testing.T) {
	const content = "0123456789"
	for name, test := range map[string]struct {
		asked, contentRange string
		code                int
		want                int64
	}{
		"from the start":         {"", "", http.StatusOK, 0},
		"the rest":               {"bytes=4-", "bytes 4-9/10", http.StatusPartialContent, 0},
		"the rest, and no range": {"bytes=4-", "", http.StatusPartialContent, 0},
		"the rest, by 200":       {"bytes=4-", "bytes 4-9/10", http.StatusOK, 0},
		"all of it":              {"bytes=4-", "", http.StatusOK, 4},
		"too little":             {"bytes=40-", "", http.StatusOK, int64(len(content))},
		"another unit":           {"lines=4-", "", http.StatusOK, 0},
		"below zero":             {"bytes=-4", "", http.StatusOK, 0},
		"no number":              {"bytes=x-", "", http.StatusOK, 0},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://registry.test/v2/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Range", test.asked)
		resp := &http.Response{StatusCode: test.code, Header: http.Header{"Content-Range": {test.contentRange}}}
		log := &fetchLog{redactor: &redact.Redactor{}, progress: &progress{}}
		body := &trackedBody{
			ReadCloser: io.NopCloser(strings.NewReader(content)), req: req, fetch: &fetch{log: log},
			host: &host{chain: transport.Config{Redactor: log.redactor}}, skip: skipped(req, resp),
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, body, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		if _, bytes := log.progress.state(); bytes != test.want {
			t.Errorf("%s: %d bytes of progress, want %d", name, bytes, test.want)
		}
	}
}
