// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// The error of a pull that did not use the source blames the origin, if it shows
// a failure of a registry.
func TestEvidence(t *testing.T) {
	status := func(method, url string, code int) error {
		return remoteerrors.ErrUnexpectedStatus{StatusCode: code, RequestMethod: method, RequestURL: url}
	}
	const manifests = "https://registry.test/v2/team/app/manifests/v1?token=secret"
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, test := range map[string]struct {
		err  error
		want failure.Class
	}{
		"503":                    {status("GET", manifests, 503), failure.Unavailable},
		"429":                    {status("HEAD", manifests, 429), failure.RateLimited},
		"404":                    {status("GET", manifests, 404), failure.NotFound},
		"403":                    {status("GET", "https://registry.test/v2/team/app/blobs/x", 403), failure.Forbidden},
		"403 for a token":        {status("POST", "https://auth.test/token", 403), failure.Unauthorized},
		"403 for a token by GET": {status("GET", "https://auth.test/token", 403), failure.Unauthorized},
		"404 for a token":        {status("GET", "https://auth.test/token", 404), failure.Invalid},
		"no authorization":       {fmt.Errorf("pull access denied: %w", docker.ErrInvalidAuthorization), failure.Unauthorized},
		"refused":                {&url.Error{Op: "Get", URL: manifests, Err: dial}, failure.Unreachable},
		"refused, bare":          {dial, failure.Unreachable},
		"name not resolved":      {&net.DNSError{Err: "no such host", Name: "registry.test", IsNotFound: true}, failure.Unreachable},
		"not trusted":            {&url.Error{Op: "Get", URL: manifests, Err: x509.UnknownAuthorityError{}}, failure.Invalid},
		"timed out":              {&url.Error{Op: "Get", URL: manifests, Err: context.DeadlineExceeded}, failure.Unreachable},
		"given up":               {&url.Error{Op: "Get", URL: manifests, Err: context.Canceled}, failure.Unreachable},

		"not found, by whom ever":   {fmt.Errorf("x: %w", errdefs.ErrNotFound), failure.None},
		"no such file":              {&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}, failure.None},
		"no space":                  {fmt.Errorf("write: %w", syscall.ENOSPC), failure.None},
		"a socket of the node":      {&net.OpError{Op: "dial", Net: "unix", Err: syscall.ECONNREFUSED}, failure.None},
		"a URL that does not parse": {&url.Error{Op: "parse", URL: ":", Err: errors.New("no")}, failure.None},
		"canceled":                  {context.Canceled, failure.None},
		"nothing known":             {errors.New("unexpected status code 503"), failure.None},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{}, Query{})
			source := s.Source(ocispec.Descriptor{Digest: manifestDigest})
			e := source.Failure(fmt.Errorf("failed to pull and unpack image: %w", test.err))
			if e == nil {
				if test.want != failure.None {
					t.Errorf("nobody is blamed, want %s", test.want)
				}
				return
			}
			if e.Class != test.want || len(e.Attempts) != 1 || !e.Attempts[0].Origin || e.Attempts[0].Host != registryName {
				t.Errorf("got %+v, want %s", e, test.want)
			}
			if strings.Contains(e.Error(), "secret") {
				t.Error(e)
			}
		})
	}
}
