// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provenance says where bytes came from. It imports nothing of
// pullwarden, so that those who fetch content and those who record it share
// one type.
package provenance

import "slices"

// Provenance is where some content came from. The zero value means that
// nothing is known.
type Provenance struct {
	// Reference is the image as the host that served its manifest or index
	// knows it, such as mirror.example.com:5000/library/nginx:1.27. It is ""
	// for other content, and where it is not known.
	Reference string
	// Hosts served bytes, each listed once and spelled as in references:
	// docker.io, mirror.example.com:5000.
	Hosts []string
}

// Known reports whether anything is known.
func (p Provenance) Known() bool { return p.Reference != "" || len(p.Hosts) > 0 }

// Add returns p with what was served later: the later reference replaces the
// earlier one, and new hosts follow. Neither p nor later is changed.
func (p Provenance) Add(later Provenance) Provenance {
	if later.Reference != "" {
		p.Reference = later.Reference
	}
	p.Hosts = slices.Clone(p.Hosts)
	for _, host := range later.Hosts {
		if !slices.Contains(p.Hosts, host) {
			p.Hosts = append(p.Hosts, host)
		}
	}
	return p
}

// InOrder returns p with its hosts in the order of a list. Hosts that are not
// in the list follow, in the order that they have.
func (p Provenance) InOrder(hosts []string) Provenance {
	place := func(host string) int {
		if i := slices.Index(hosts, host); i >= 0 {
			return i
		}
		return len(hosts)
	}
	p.Hosts = slices.Clone(p.Hosts)
	slices.SortStableFunc(p.Hosts, func(a, b string) int { return place(a) - place(b) })
	return p
}
