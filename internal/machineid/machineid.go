// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machineid tells one machine from another without telling its id.
package machineid

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/pullwarden/pullwarden/internal/filestamp"
)

// File is where a machine has its id (machine-id(5)).
const File = "/etc/machine-id"

const idSize = 16

var errNone = errors.New("is not the id of a machine")

// Derive returns a value that is always the same for one machine and one
// application, and another for any other: HMAC-SHA-256 (RFC 2104) of the
// application's name, under the machine's id, as machine-id(5) wants it. The id
// itself is confidential: neither the value nor an error tells it. The error is
// for a file that is not there, cannot be read, or holds no id, such as
// "uninitialized" at the first boot.
func Derive(file, application string) ([]byte, error) {
	data, _, err := filestamp.ReadFile(file)
	if err != nil {
		return nil, err
	}
	id, err := hex.DecodeString(string(bytes.TrimSpace(data)))
	if err != nil || len(id) != idSize || bytes.Equal(id, make([]byte, idSize)) {
		return nil, fmt.Errorf("%s %w", file, errNone) // err repeats a part of it
	}
	mac := hmac.New(sha256.New, id)
	mac.Write([]byte(application))
	return mac.Sum(nil), nil
}
