// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"net"
	"net/http"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// StatusClass judges the status of a registry's answer that is no success. A 503
// is Unavailable: package tries has it tried again where no other host can answer,
// and health counts it.
func StatusClass(status int) failure.Class {
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

// TokenStatusClass judges the status of a token server's answer that is no
// success. A token server speaks of credentials where a registry speaks of an
// image.
func TokenStatusClass(status int) failure.Class {
	switch class := StatusClass(status); {
	case class == failure.Forbidden, status == http.StatusBadRequest:
		return failure.Unauthorized
	case class == failure.NotFound:
		return failure.Invalid
	default:
		return class
	}
}

// TransportClass judges why an http.RoundTripper gave no answer, or why an
// answer's body broke off. silent tells that the request was sent and not one
// byte came back.
func TransportClass(err error, silent bool) failure.Class {
	if f, ok := As(err); ok {
		return f.Class
	}
	var network net.Error
	switch {
	case untrusted(err):
		return failure.Invalid
	case Interrupted(err), BrokenOff(err), errors.As(err, &network), silent:
		return failure.Unreachable
	}
	return failure.Invalid
}

// AnswerClass judges an error of docker's resolver or fetcher.
func AnswerClass(err error) failure.Class {
	f, judged := As(err)
	status, answered := errors.AsType[remoteerrors.ErrUnexpectedStatus](err)
	switch {
	case judged:
		return f.Class
	case Interrupted(err):
		return failure.Unreachable
	case answered:
		return StatusClass(status.StatusCode)
	case errors.Is(err, docker.ErrInvalidAuthorization):
		return failure.Unauthorized
	case errdefs.IsNotFound(err):
		return failure.NotFound
	}
	return failure.Invalid
}

// TokenClass judges an error of docker's authorizer, which speaks to the token
// server.
func TokenClass(err error) failure.Class {
	f, judged := As(err)
	status, answered := errors.AsType[remoteerrors.ErrUnexpectedStatus](err)
	switch {
	case judged:
		return f.Class
	case Interrupted(err):
		return failure.Unreachable
	case answered:
		return TokenStatusClass(status.StatusCode)
	case errors.Is(err, docker.ErrInvalidAuthorization):
		return failure.Unauthorized
	}
	return failure.Invalid // no token in the answer, no JSON, no realm
}
