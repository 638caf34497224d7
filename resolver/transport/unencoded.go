// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
)

// Unencoded asks for content as it is, and refuses content that comes encoded all the same (RFC
// 9110, section 8.4). containerd's fetcher asks for zstd, gzip and deflate, and decodes them
// beyond all that bounds content: six bytes of zstd have it take a GiB of memory, it never closes
// some answers that it decodes, and an answer can go on without a byte of content. Nothing is
// lost: layers are compressed by their media types, and documents are small. Next must not be nil.
type Unencoded struct{ Next http.RoundTripper }

// RoundTrip implements http.RoundTripper. An answer to HEAD has nothing to decode: its length is
// unknown where it would be that of an encoding.
func (u Unencoded) RoundTrip(req *http.Request) (*http.Response, error) {
	plain := req.WithContext(req.Context())
	plain.Header = req.Header.Clone()
	// In the place of what containerd sets. Without any, net/http asks for gzip, and decodes it.
	plain.Header.Set("Accept-Encoding", "identity")
	resp, err := u.Next.RoundTrip(plain)
	if err != nil || resp.StatusCode > 299 { // the body of an error is read as it is
		return resp, err
	}
	coding := contentCoding(resp.Header)
	switch {
	case coding == "":
	case req.Method == http.MethodHead:
		resp.ContentLength = -1
	default:
		_ = resp.Body.Close()
		err := fmt.Errorf("Content-Encoding %s, which nobody asked for", coding)
		return nil, &fault.Fault{Class: failure.Invalid, Err: err}
	}
	return resp, nil
}

// contentCoding returns the first coding that an answer's content has, or "" for none: in a word
// that can be told, since an answer may name anything.
func contentCoding(h http.Header) string {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Content-Encoding"), ","), ",") {
		switch coding = strings.ToLower(strings.TrimSpace(coding)); coding {
		case "", "identity":
		case "gzip", "x-gzip", "deflate", "compress", "br", "zstd":
			return coding
		default:
			return "of no known name"
		}
	}
	return ""
}
