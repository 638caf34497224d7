// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"regexp"

	"github.com/docker/go-units"
)

// sizes are what parseSize takes. Units of powers of ten are not among them: the library
// reads "20GB" as "20GiB".
var sizes = regexp.MustCompile(`^(0|[0-9]{1,6}(\.[0-9]{1,3})?(KiB|MiB|GiB|TiB))$`)

// parseSize returns a size in bytes; 0 means no bound. The error says what is allowed.
func parseSize(text string) (int64, error) {
	if sizes.MatchString(text) {
		if n, err := units.RAMInBytes(text); err == nil && (n > 0 || text == "0") {
			return n, nil
		}
	}
	return 0, errors.New("allowed are sizes above 0 in KiB, MiB, GiB or TiB, such as 20GiB, or 0 for no bound")
}
