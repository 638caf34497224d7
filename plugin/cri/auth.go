// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// anyHost stands for whatever host the credentials are for.
const anyHost = ""

// errMalformedAuth says nothing of what was malformed: it was a secret.
var errMalformedAuth = errors.New("auth is not the base64 of user:password")

// credentialsFor reads the credentials of a CRI request for one registry host,
// as containerd's own CRI plugin does (ParseAuth, which cannot be imported):
// an empty server address matches every host, and user name and password come
// before an identity token, which comes before the combined auth. Without
// credentials both results are empty.
func credentialsFor(auth *runtime.AuthConfig, host string) (username, secret string, err error) {
	if auth == nil {
		return "", "", nil
	}
	if auth.ServerAddress != "" && host != anyHost {
		u, err := url.Parse(auth.ServerAddress)
		if err != nil {
			return "", "", fmt.Errorf("server address of the credentials: %w", err)
		}
		if host != u.Host {
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
