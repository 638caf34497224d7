// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registryname knows which names of registries mean the same one. Image
// records keep the names by which they were asked for; whatever is decided about
// a registry is decided about all of its names.
package registryname

import (
	"net/netip"
	"slices"
	"strings"
)

const (
	dockerHub = "docker.io"
	httpsPort = ":443"
	httpPort  = ":80"
)

// hubAliases are what Docker Hub is called besides docker.io.
var hubAliases = []string{"index.docker.io", "registry-1.docker.io"}

// Canonical returns the one name of a registry, host[:port]: in lower case,
// without the port of HTTPS and without zeros before another, an IPv6 address in
// its shortest form (RFC 5952), and docker.io for Docker Hub.
func Canonical(host string) string {
	host = withoutPort(Plain(host), httpsPort)
	if slices.Contains(hubAliases, host) {
		return dockerHub
	}
	return host
}

// Address returns the one name of a host under a URL's scheme, whose default
// port is left out.
func Address(scheme, host string) string {
	if strings.EqualFold(scheme, "http") {
		return withoutPort(Plain(host), httpPort)
	}
	return Canonical(host)
}

// upper are the letters of host names that have a lower case.
const upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Lower writes a host, or a pattern of hosts, in lower case. Only ASCII has one there (RFC 4343): a
// name with U+0130, which Unicode makes an i, is another name in DNS, and may be anybody's.
func Lower(host string) string {
	if !strings.ContainsAny(host, upper) {
		return host
	}
	lower := []byte(host)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] += 'a' - 'A'
		}
	}
	return string(lower)
}

// Plain writes a host, host[:port], as everybody does: references may have zeros before the
// number of a port, and IPv6 addresses at full length, which lead to the same host. The port
// stays: without it, the scheme would tell which one is meant.
func Plain(host string) string {
	name, port := splitPort(Lower(host))
	if len(port) > 2 { // the last digit stays, whatever it is
		last := len(port) - 1
		port = ":" + strings.TrimLeft(port[1:last], "0") + port[last:]
	}
	if ip, ok := bracketed(name); ok && ip.Is4In6() {
		name = ip.Unmap().String() // the same host as by IPv4
	} else if ok {
		name = "[" + ip.String() + "]"
	}
	return name + port
}

// bracketed reads an IPv6 address as references have it.
func bracketed(name string) (ip netip.Addr, ok bool) {
	inner, opened := strings.CutPrefix(name, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !opened || !closed {
		return ip, false
	}
	ip, err := netip.ParseAddr(inner)
	return ip, err == nil && ip.Is6()
}

// IsIPv6 reports whether a host, host[:port], is an IPv6 address in brackets.
func IsIPv6(host string) bool {
	name, _ := splitPort(host)
	_, ok := bracketed(name)
	return ok
}

// splitPort splits host[:port] before the colon of the port; "" = there is none. An
// IPv6 address without brackets has none.
func splitPort(host string) (name, port string) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.Trim(host[i+1:], "0123456789") != "" || strings.Contains(host[:i], ":") && !strings.HasSuffix(host[:i], "]") {
		return host, ""
	}
	return host[:i], host[i:]
}

// withoutPort takes a port off.
func withoutPort(host, port string) string {
	if name, has := splitPort(host); has == port {
		return name
	}
	return host
}

// official is what Docker Hub calls whose repositories have one component: docker.io/app is
// docker.io/library/app there, and at its mirrors.
const official = "library/"

// Repository returns the one name of what begins with a registry, such as a repository or the
// name of an image.
func Repository(name string) string {
	host, path, ok := strings.Cut(name, "/")
	if !ok {
		return name
	}
	canonical := Canonical(host)
	if canonical == dockerHub && !strings.Contains(path, "/") {
		return canonical + "/" + official + path
	}
	if canonical == host {
		return name
	}
	return canonical + "/" + path
}

// Spellings returns the names of a registry that a pattern in lower case may
// mean, the canonical one first.
func Spellings(host string) []string {
	canonical := Canonical(host)
	names := []string{canonical}
	if canonical == dockerHub {
		names = append(names, hubAliases...)
	}
	if strings.Contains(canonical, ":") && !strings.HasSuffix(canonical, "]") {
		return names // it has a port
	}
	for _, name := range slices.Clone(names) {
		names = append(names, name+httpsPort)
	}
	return names
}
