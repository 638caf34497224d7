// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// AddHeaders adds the values of headers that the node is configured to send: each may be what
// lets it in.
func (r *Redactor) AddHeaders(headers http.Header) {
	for _, values := range headers {
		for _, value := range values {
			r.Add(spellings(value)...)
			if _, credentials, ok := strings.Cut(value, " "); ok {
				r.Add(spellings(credentials)...)
			}
			r.addBasic(value)
		}
	}
}

// addBasic adds the secret in an Authorization header of the scheme Basic (RFC 7617).
func (r *Redactor) addBasic(value string) {
	scheme, credentials, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credentials))
	if username, secret, both := strings.Cut(string(decoded), ":"); err == nil && both {
		r.AddCredentials(username, secret)
	}
}
