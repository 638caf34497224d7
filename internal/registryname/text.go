// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package registryname

import (
	"fmt"
	"strings"
)

const (
	// MaxText bounds the bytes of a host that Text reads: more than a DNS name with a port
	// may have.
	MaxText = 300
	// inHosts are the characters of hosts besides letters and digits: host[:port].
	inHosts = ".-_:[]"
)

// Text returns the host of a URL that a registry or its content has named, fit for labels,
// metrics and terminals. A URL can have any bytes in its host, such as those that move the
// cursor: bytes that no host has are escaped, and a name that is too long for a host is cut.
func Text(host string) string {
	var b strings.Builder
	for _, c := range []byte(host[:min(len(host), MaxText)]) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(inHosts, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
