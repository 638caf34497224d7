// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provenance says where bytes came from. It is for the resolver, which sees who
// serves, and the transfer, which writes it down, to share one type.
package provenance

import (
	"net/url"
	"slices"
	"strings"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

// Provenance is where the bytes of one digest, or of a whole image, came from.
// The zero value means that nothing is known.
type Provenance struct {
	// Reference is what the host that served the manifest or index calls the
	// image, such as mirror.example.com:5000/library/nginx:1.27; "" for other
	// content, and where nobody served the manifest because it was there.
	Reference string

	// Hosts served bytes, spelled as in references: docker.io,
	// mirror.example.com:5000. Content has more than one where a download was
	// resumed.
	Hosts []string

	// More says how many hosts the list lacks at least, because there was no room
	// to keep them; 0 = none. Where nobody knows who has served some of the bytes that is one, though it may be in
	// the list.
	More int
}

// Known reports whether anything is known.
func (p Provenance) Known() bool { return p.Reference != "" || len(p.Hosts) > 0 || p.More > 0 }

// maxHosts bounds the hosts of a provenance, which are gathered of thousands of layers: no label has room for
// so many.
const maxHosts = 1024

// Add returns p together with what was served later: a later reference
// replaces the one of p, and each host is in the list once, as far as there is room. Neither p nor later
// changes.
func (p Provenance) Add(later Provenance) Provenance {
	if later.Reference != "" {
		p.Reference = later.Reference
	}
	p.Hosts = slices.Clone(p.Hosts)
	leftOut := 0
	for _, host := range later.Hosts {
		switch {
		case slices.Contains(p.Hosts, host):
		case len(p.Hosts) < maxHosts:
			p.Hosts = append(p.Hosts, host)
		default:
			leftOut++ // maybe once more
		}
	}
	p.More = max(p.More, later.More, leftOut)
	return p
}

// InOrder returns p with its hosts in the order of a list. Hosts that are not in
// the list follow as they are. Neither p nor the list changes.
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

// HostOf returns the host of a URL that the content names itself, as Hosts have it: labels
// are text, of which gRPC carries no other than UTF-8, and part hosts by commas. That of plain HTTP
// always has its port, since a host without one means that of HTTPS.
func HostOf(u *url.URL) string { return registryname.Text(withPort(u)) }

func withPort(u *url.URL) string {
	if u.Scheme == "http" && u.Port() == "" {
		return strings.TrimSuffix(u.Host, ":") + ":80"
	}
	return u.Host
}

// Names reports whether HostOf is the name of the host that containerd asks for what is at a URL.
// containerd reads the host once more, which unescapes it a second time, such as the zone of an address,
// a host that is cut may look like another one, and plain HTTP at the port of HTTPS has the name of that.
func Names(u *url.URL) bool {
	host := withPort(u)
	likeHTTPS := u.Scheme == "http" && registryname.Canonical(host) != registryname.Plain(host)
	return !strings.Contains(host, "%") && len(host) <= registryname.MaxText && !likeHTTPS
}
