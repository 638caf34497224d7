// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// ForeignClass judges the error of a pull that did not use a Source, because
// containerd resolved and fetched by itself. Only types that a registry client
// alone produces count: a missing file is no missing image, and a full disk no
// network. None means that the error shows nothing
// of the kind.
func ForeignClass(err error) failure.Class {
	status, answered := errors.AsType[remoteerrors.ErrUnexpectedStatus](err)
	request, requested := errors.AsType[*url.Error](err)
	operation, network := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	switch {
	case answered && ofTokenServer(status):
		return TokenStatusClass(status.StatusCode)
	case answered:
		return StatusClass(status.StatusCode)
	case errors.Is(err, docker.ErrInvalidAuthorization):
		return failure.Unauthorized
	case untrusted(err):
		return failure.Invalid
	case requested && request.Op != "parse":
		return TransportClass(request.Err, false)
	case name, network && strings.HasPrefix(operation.Net, "tcp"):
		return failure.Unreachable
	}
	return failure.None
}

// ofTokenServer reports whether an answer is to the request for a token: a pull
// posts nothing else, and asks registries for paths of their API only.
func ofTokenServer(s remoteerrors.ErrUnexpectedStatus) bool {
	if s.RequestMethod == http.MethodPost {
		return true
	}
	u, err := url.Parse(s.RequestURL)
	return err == nil && !strings.Contains(u.Path, "/manifests/") && !strings.Contains(u.Path, "/blobs/")
}
