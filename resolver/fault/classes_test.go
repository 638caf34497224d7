// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A status has one class from a registry, and perhaps another from a token
// server.
func TestStatusClasses(t *testing.T) {
	for status, want := range map[int]struct{ registry, token failure.Class }{
		400: {failure.Invalid, failure.Unauthorized},
		401: {failure.Unauthorized, failure.Unauthorized},
		403: {failure.Forbidden, failure.Unauthorized},
		404: {failure.NotFound, failure.Invalid},
		405: {failure.Invalid, failure.Invalid},
		408: {failure.Unavailable, failure.Unavailable},
		410: {failure.NotFound, failure.Invalid},
		418: {failure.Invalid, failure.Invalid},
		425: {failure.Unavailable, failure.Unavailable},
		429: {failure.RateLimited, failure.RateLimited},
		499: {failure.Invalid, failure.Invalid},
		500: {failure.Unavailable, failure.Unavailable},
		501: {failure.Unavailable, failure.Unavailable},
		599: {failure.Unavailable, failure.Unavailable},
		600: {failure.Invalid, failure.Invalid},
	} {
		if got := StatusClass(status); got != want.registry {
			t.Errorf("%d: got %s, want %s", status, got, want.registry)
		}
		if got := TokenStatusClass(status); got != want.token {
			t.Errorf("%d of a token server: got %s, want %s", status, got, want.token)
		}
	}
}

// Why there was no answer, or none to the end.
func TestTransportClasses(t *testing.T) {
	nonsense := errors.New("nonsense")
	for _, test := range []struct {
		err    error
		silent bool
		want   failure.Class
	}{
		{&Fault{Class: failure.Forbidden, Err: io.EOF}, false, failure.Forbidden},
		{x509.HostnameError{}, true, failure.Invalid},
		{&net.OpError{Op: "remote error", Err: nonsense}, false, failure.Invalid},
		{context.DeadlineExceeded, false, failure.Unreachable},
		{io.ErrUnexpectedEOF, false, failure.Unreachable},
		{syscall.ECONNRESET, false, failure.Unreachable},
		{&url.Error{Op: "Post", URL: "http://registry.test/token", Err: errors.New("http: server closed idle connection")}, false, failure.Unreachable},
		{&net.OpError{Op: "dial", Err: nonsense}, false, failure.Unreachable},
		{nonsense, true, failure.Unreachable},
		{nonsense, false, failure.Invalid},
	} {
		if got := TransportClass(fmt.Errorf("do: %w", test.err), test.silent); got != test.want {
			t.Errorf("%v, silent %v: got %s, want %s", test.err, test.silent, got, test.want)
		}
	}
}

// Errors of docker's resolver, and of its authorizer.
func TestDockerClasses(t *testing.T) {
	status := func(code int) error { return remoteerrors.ErrUnexpectedStatus{StatusCode: code} }
	for _, test := range []struct {
		err           error
		answer, token failure.Class
	}{
		{&Fault{Class: failure.RateLimited, Err: status(403)}, failure.RateLimited, failure.RateLimited},
		{context.Canceled, failure.Unreachable, failure.Unreachable},
		{status(403), failure.Forbidden, failure.Unauthorized},
		{docker.ErrInvalidAuthorization, failure.Unauthorized, failure.Unauthorized},
		{errdefs.ErrNotFound, failure.NotFound, failure.Invalid},
		{errors.New("nonsense"), failure.Invalid, failure.Invalid},
	} {
		err := fmt.Errorf("failed: %w", test.err)
		if got := AnswerClass(err); got != test.answer {
			t.Errorf("%v: got %s, want %s", test.err, got, test.answer)
		}
		if got := TokenClass(err); got != test.token {
			t.Errorf("%v, of a token server: got %s, want %s", test.err, got, test.token)
		}
	}
}

// Docker's resolver asks again after whatever unwraps to an EOF or a time-out.
func TestFaultsDoNotUnwrap(t *testing.T) {
	err := fmt.Errorf("failed: %w", &Fault{Class: failure.Unreachable, Err: io.EOF})
	if f, ok := As(err); !ok || f.Class != failure.Unreachable || f.Error() != "EOF" || errors.Is(err, io.EOF) {
		t.Errorf("got %v, %v", f, ok)
	}
	if _, ok := As(io.EOF); ok {
		t.Error("an ordinary error is a fault")
	}
}

func TestTimedOut(t *testing.T) {
	for err, want := range map[error]bool{os.ErrDeadlineExceeded: true, context.DeadlineExceeded: true, context.Canceled: false, io.EOF: false} {
		if got := TimedOut(fmt.Errorf("read: %w", err)); got != want {
			t.Errorf("%v: got %v", err, got)
		}
	}
}
