// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/pullwarden/pullwarden/internal/quoted"
)

// Failed is Request for an error of net/http, or of what it uses: without what that quotes, which
// may be a part of a secret, but for certificates. Where the host is not told, its text has a kind
// alone.
func (r *Redactor) Failed(req *http.Request, err error) error {
	text := err.Error()
	if _, certificate := errors.AsType[*tls.CertificateVerificationError](err); !certificate {
		text = quoted.Cut(text)
	}
	if !r.TellsHost(req.URL) {
		text = kindOf(err)
	}
	return r.Wrap(fmt.Sprintf("%s %s: %s", req.Method, r.URL(req.URL), text), err)
}

// kindOf says why there was no answer, in words that no host has chosen.
func kindOf(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Err
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return "it timed out"
	}
	return "no answer"
}
