// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// This file is the one table of failure classes. docs/policies-and-failures.md says
// the same in words.

// statusClass judges the status of a registry's answer that is no success.
func statusClass(status int) failure.Class {
	switch {
	case status == http.StatusNotFound, status == http.StatusGone:
		return failure.NotFound
	case status == http.StatusUnauthorized:
		return failure.Unauthorized
	case status == http.StatusForbidden:
		return failure.Forbidden
	case status == http.StatusTooManyRequests:
		return failure.RateLimited
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly,
		status >= 500 && status <= 599:
		return failure.Unavailable
	}
	return failure.Invalid
}

// tokenStatusClass judges the status of a token server's answer that is no
// success. What a registry says about an image, a token server says about
// credentials.
func tokenStatusClass(status int) failure.Class {
	switch class := statusClass(status); {
	case class == failure.Forbidden, status == http.StatusBadRequest:
		return failure.Unauthorized
	case class == failure.NotFound:
		return failure.Invalid
	default:
		return class
	}
}

// transportClass judges why an http.RoundTripper gave no answer, or why an
// answer's body broke off. silent tells that the request was sent and not one
// byte came back.
func transportClass(err error, silent bool) failure.Class {
	if f, ok := asFault(err); ok {
		return f.class
	}
	var network net.Error
	switch {
	case untrusted(err):
		return failure.Invalid
	case interrupted(err), brokenOff(err), errors.As(err, &network), silent:
		return failure.Unreachable
	}
	return failure.Invalid
}

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

// brokenOff reports whether a connection ended in the middle.
func brokenOff(err error) bool {
	for _, target := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// interrupted reports whether a context ended.
func interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// answerClass judges an error of docker's resolver or fetcher.
func answerClass(err error) failure.Class {
	f, judged := asFault(err)
	status, answered := errors.AsType[remoteerrors.ErrUnexpectedStatus](err)
	switch {
	case judged:
		return f.class
	case interrupted(err):
		return failure.Unreachable
	case answered:
		return statusClass(status.StatusCode)
	case errors.Is(err, docker.ErrInvalidAuthorization):
		return failure.Unauthorized
	case errdefs.IsNotFound(err):
		return failure.NotFound
	}
	return failure.Invalid
}

// tokenClass judges an error of docker's authorizer, which speaks to the token
// server.
func tokenClass(err error) failure.Class {
	f, judged := asFault(err)
	status, answered := errors.AsType[remoteerrors.ErrUnexpectedStatus](err)
	_, own := errors.AsType[*credentialsError](err)
	switch {
	case judged:
		return f.class
	case interrupted(err):
		return failure.Unreachable
	case answered:
		return tokenStatusClass(status.StatusCode)
	case own, errors.Is(err, docker.ErrInvalidAuthorization):
		return failure.Unauthorized
	}
	return failure.Invalid // no token in the answer, no JSON, no realm
}
