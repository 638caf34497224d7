// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// An error that nothing seen of a registry stands behind is no registry's, though
// it may look like one: a snapshotter or a verifier has a network, too.
func TestNobodyIsBlamed(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for name, err := range map[string]error{
		"status":            remoteerrors.ErrUnexpectedStatus{StatusCode: 503, RequestMethod: "GET", RequestURL: "https://registry.test/v2/team/app/manifests/v1"},
		"no authorization":  docker.ErrInvalidAuthorization,
		"refused":           &url.Error{Op: "Get", URL: "https://registry.test", Err: dial},
		"refused, bare":     dial,
		"name not resolved": &net.DNSError{Err: "no such host", Name: "registry.test", IsNotFound: true},
		"not trusted":       x509.UnknownAuthorityError{},
		"not found":         errdefs.ErrNotFound,
		"no such file":      &fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT},
		"no space":          syscall.ENOSPC,
		"nothing known":     errors.New("unexpected status code 503"),
	} {
		source := open(t, Options{}, Query{}).Source(ocispec.Descriptor{Digest: manifestDigest})
		if e := source.Failure(fmt.Errorf("failed to pull and unpack image: %w", err)); e != nil {
			t.Errorf("%s: %v", name, e)
		}
	}
}
