// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
)

// refusable is one of docker's authorizers that keeps what a token server has refused the caller by. Docker's asks by GET
// after a POST that was answered with 400 or 401, since there are servers that know no POST, and tells of the GET alone.
// A server that knows no GET has refused the caller by then, and says whatever it likes to that. It is asked for one token
// at a time.
type refusable struct {
	docker.Authorizer
	posts *refusedPost
}

// keepRefusals makes one of docker's authorizers, with a client for it.
func keepRefusals(c *http.Client, authorizer func(*http.Client) docker.Authorizer) docker.Authorizer {
	keeps, posts := *c, &refusedPost{next: c.Transport}
	keeps.Transport = posts
	return &refusable{authorizer(&keeps), posts}
}

// Authorize implements docker.Authorizer. The answer to the GET counts where it says something of the credentials, or that
// nobody can be told now; that to the POST where the GET makes no sense to the server, or its answer none. The password
// that was refused is not sent again, as it would be by another try.
func (r *refusable) Authorize(ctx context.Context, req *http.Request) error {
	r.posts.refusal = nil
	err := r.Authorizer.Authorize(ctx, req)
	refusal := r.posts.refusal
	r.posts.refusal = nil
	if err == nil || refusal == nil {
		return err
	}
	f, judged := fault.As(err)
	switch {
	case fault.TokenClass(err) == failure.Invalid, judged && f.Status == http.StatusNotImplemented:
		return refusal
	case judged && f.Temporary:
		once := *f
		once.Temporary = false
		return &once
	}
	return err
}

// refusedPost keeps the last answer to a POST, if it refuses the caller.
type refusedPost struct {
	next    http.RoundTripper
	refusal error // a remoteerrors.ErrUnexpectedStatus, as docker's authorizer has it; nil = none
}

// RoundTrip implements http.RoundTripper. The transport below bounds the answer.
func (r *refusedPost) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err != nil || req.Method != http.MethodPost || !fault.TokenStatusClass(resp.StatusCode).Refuses() {
		return resp, err
	}
	data, _ := io.ReadAll(resp.Body) // of half a reason, docker's authorizer tells that half, too
	_ = resp.Body.Close()
	kept := *resp
	resp.Body, kept.Body = io.NopCloser(bytes.NewReader(data)), io.NopCloser(bytes.NewReader(data))
	r.refusal = remoteerrors.NewUnexpectedStatusErr(&kept)
	return resp, nil
}
