// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"fmt"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// Credentials gives user name and secret for a host[:port], as
// docker.WithAuthCreds takes it. Two empty strings mean that there are none. An
// error is reported without its text, which may quote them.
type Credentials func(host string) (username, secret string, err error)

// Redacted returns Credentials that the redactor knows as soon as they are
// given, and whose errors do not repeat why: that may quote them. nil gives
// Credentials of nobody.
func Redacted(credentials Credentials, redactor *redact.Redactor) Credentials {
	if credentials == nil {
		return func(string) (username, secret string, err error) { return "", "", nil }
	}
	return func(host string) (string, string, error) {
		username, secret, err := credentials(host)
		if err != nil {
			return "", "", &fault.Fault{
				Class: failure.Unauthorized,
				Err:   fmt.Errorf("the credentials for %s cannot be read", host),

				Elsewhere: true, // no host has seen them
			}
		}
		redactor.AddCredentials(username, secret)
		return username, secret, nil
	}
}

// fixed are the same credentials for every host.
func fixed(username, secret string) Credentials {
	return func(string) (string, string, error) { return username, secret, nil }
}
