// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// untrusted reports whether TLS failed for another reason than the network.
func untrusted(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		certificate  x509.CertificateInvalidError
		record       tls.RecordHeaderError // such as plain HTTP on a TLS port
		alert        tls.AlertError
		ech          *tls.ECHRejectionError
		operation    *net.OpError
	)
	for _, target := range []any{&verification, &authority, &hostname, &certificate, &record, &alert, &ech} {
		if errors.As(err, target) {
			return true
		}
	}
	// crypto/tls reports alerts of either side so; their type is its own.
	return errors.As(err, &operation) && (operation.Op == "remote error" || operation.Op == "local error")
}

// closedIdle is what net/http says where a host closes a connection while a request is
// being written to it, which net/http does not send again by itself: one with a body, such
// as that for a token. The error has no name.
const closedIdle = "http: server closed idle connection"

// ErrUnacknowledged is the error of a connection whose other end's system acknowledges nothing: it is dead. It counts as
// broken off, since the time of no answer is over.
var ErrUnacknowledged = fmt.Errorf("nothing that was sent is acknowledged: %w", syscall.ECONNRESET)

// BrokenOff reports whether a connection ended in the middle.
func BrokenOff(err error) bool {
	if err != nil && strings.HasSuffix(err.Error(), closedIdle) {
		return true
	}
	for _, target := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// Interrupted reports whether a context ended.
func Interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// TimedOut reports whether time ran out, be it a connection's or a context's.
func TimedOut(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

// Handshake is Op of the net.OpError of a TLS handshake that was given up early.
const Handshake = "TLS handshake"

// HandshakeTimedOut reports whether a TLS handshake was given up early, since another host can answer.
func HandshakeTimedOut(err error) bool {
	operation, ok := errors.AsType[*net.OpError](err)
	return ok && operation.Op == Handshake && operation.Timeout()
}

// DialTimedOut reports whether time ran out for a connection, be it to a proxy.
func DialTimedOut(err error) bool {
	operation, ok := errors.AsType[*net.OpError](err)
	return ok && (operation.Op == "dial" || operation.Op == "proxyconnect") && operation.Timeout()
}
