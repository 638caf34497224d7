// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

// anyHost stands for whatever host the credentials are for.
const anyHost = ""

// maxCredentials bounds the bytes of a user name and its secret together. A registry, or a
// proxy before it, may end the connection over the header that longer ones make, which
// looks as if it could not be reached: a tenant would choose when that is so. Basic
// authentication makes them a third longer, and many servers have 8 KiB for all headers.
const maxCredentials = 5 << 10

// The errors say nothing of what they are about: it was a secret.
var (
	errMalformedAuth   = errors.New("auth is not the base64 of user:password")
	errLongCredentials = fmt.Errorf("user name and secret have more than %d bytes", maxCredentials)
)

// credentialsFor reads the credentials of a CRI request for one registry host, and refuses
// those that are too long to be sent.
func credentialsFor(auth *runtime.AuthConfig, host string) (username, secret string, err error) {
	username, secret, err = parseAuth(auth, host)
	if err == nil && len(username)+len(secret) > maxCredentials {
		return "", "", errLongCredentials
	}
	return username, secret, err
}

// parseAuth reads them as containerd's own CRI plugin does (ParseAuth, which cannot be
// imported): an empty server address matches every host, and user name and password come
// before an identity token, which comes before the combined auth. Without
// credentials both results are empty.
func parseAuth(auth *runtime.AuthConfig, host string) (username, secret string, err error) {
	if auth == nil {
		return "", "", nil
	}
	if auth.ServerAddress != "" && host != anyHost {
		u, err := url.Parse(auth.ServerAddress)
		if err != nil {
			return "", "", fmt.Errorf("server address of the credentials: %w", err)
		}
		// An address in clear is for that port alone.
		same := registryname.Plain(host) == registryname.Plain(u.Host)
		if !same && (u.Scheme != "https" || !sameRegistry(host, u.Host)) {
			return "", "", nil
		}
	}
	switch {
	case auth.Username != "":
		return auth.Username, auth.Password, nil
	case auth.IdentityToken != "":
		return "", auth.IdentityToken, nil
	case auth.Auth != "":
		decoded, err := base64.StdEncoding.DecodeString(auth.Auth)
		if err != nil {
			return "", "", errMalformedAuth
		}
		user, password, ok := strings.Cut(string(decoded), ":")
		if !ok {
			return "", "", errMalformedAuth
		}
		return user, strings.Trim(password, "\x00"), nil
	}
	return "", "", nil
}

// sameRegistry reports whether two hosts are spellings of one registry: it is asked by its one
// name, however references spell it. On loopback it may be asked by HTTP, so that another port
// may be another registry.
func sameRegistry(a, b string) bool {
	a, b = registryname.Plain(a), registryname.Plain(b)
	loopback := docker.IsLocalhost(a) || docker.IsLocalhost(b)
	return a == b || !loopback && registryname.Canonical(a) == registryname.Canonical(b)
}
