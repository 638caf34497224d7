// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// refusable is one of docker's authorizers that keeps what a token server has refused the caller by. Docker's asks by GET
// after a POST that was answered with 400 or 401, since there are servers that know no POST, and tells of the GET alone.
// A server that knows no GET has refused the caller by then: it is the answer to the POST that counts.
type refusable struct{ docker.Authorizer }

// keepRefusals makes one of docker's authorizers, with a client for it.
func keepRefusals(c *http.Client, authorizer func(*http.Client) docker.Authorizer) docker.Authorizer {
	keeps := *c
	keeps.Transport = &refusedPosts{next: c.Transport}
	return &refusable{authorizer(&keeps)}
}

// Authorize implements docker.Authorizer.
func (r *refusable) Authorize(ctx context.Context, req *http.Request) error {
	var kept refusal
	err := r.Authorizer.Authorize(context.WithValue(ctx, refusalKey{}, &kept), req)
	if kept.err != nil && isOfMethod(err) {
		return kept.err
	}
	return err
}

// isOfMethod reports whether a token server fails to answer since it does not know the method: another answer, such as a
// page, may be that of a gateway before a server that knows GET alone.
func isOfMethod(err error) bool {
	status := 0
	if answer, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok {
		status = answer.StatusCode
	} else if f, judged := fault.As(err); judged {
		status = f.Status
	}
	return status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented
}

// refusal is the last answer to a POST of one use of the authorizer, if that refuses the caller. It goes with the
// context: one that has been given up and the next may overlap.
type refusal struct {
	err error // a remoteerrors.ErrUnexpectedStatus, as docker's authorizer has it; nil = none
}

type refusalKey struct{}

// refusedPosts keeps refusals.
type refusedPosts struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper. The transport below bounds the answer.
func (r *refusedPosts) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err != nil || req.Method != http.MethodPost || !fault.TokenStatusClass(resp.StatusCode).Refuses() {
		return resp, err
	}
	data, _ := io.ReadAll(resp.Body) // of half a reason, docker's authorizer tells that half, too
	_ = resp.Body.Close()
	kept := *resp
	resp.Body, kept.Body = io.NopCloser(bytes.NewReader(data)), io.NopCloser(bytes.NewReader(data))
	if refused, ok := req.Context().Value(refusalKey{}).(*refusal); ok {
		refused.err = remoteerrors.NewUnexpectedStatusErr(&kept)
	}
	return resp, nil
}
