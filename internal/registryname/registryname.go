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
	host = withoutPort(plain(host), httpsPort)
	if slices.Contains(hubAliases, host) {
		return dockerHub
	}
	return host
}

// Address returns the one name of a host under a URL's scheme, whose default
// port is left out.
func Address(scheme, host string) string {
	if strings.EqualFold(scheme, "http") {
		return withoutPort(plain(host), httpPort)
	}
	return Canonical(host)
}

// plain writes a host as everybody does: references may have zeros before the number
// of a port, and IPv6 addresses at full length, which lead to the same host.
func plain(host string) string {
	host = strings.ToLower(host)
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && hasPort(host, i) {
		name, port = host[:i], host[i:]
	}
	digits := port
	for len(digits) > 2 && digits[1] == '0' {
		digits = digits[1:]
	}
	if ip, ok := bracketed(name); ok && ip.Is4In6() {
		name = ip.Unmap().String() // the same host as by IPv4
	} else if ok {
		name = "[" + ip.String() + "]"
	} else if len(digits) == len(port) {
		return host
	}
	if digits == "" {
		return name
	}
	return name + ":" + digits[1:]
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
	if i := strings.LastIndexByte(host, ':'); i >= 0 && hasPort(host, i) {
		host = host[:i]
	}
	_, ok := bracketed(strings.ToLower(host))
	return ok
}

// hasPort reports whether the colon at i is before a port.
func hasPort(host string, i int) bool {
	name, port := host[:i], host[i+1:]
	return strings.Trim(port, "0123456789") == "" && (!strings.Contains(name, ":") || strings.HasSuffix(name, "]"))
}

// withoutPort takes a port off. An IPv6 address without brackets has none.
func withoutPort(host, port string) string {
	name, ok := strings.CutSuffix(host, port)
	if !ok || strings.Contains(name, ":") && !strings.HasSuffix(name, "]") {
		return host
	}
	return name
}

// Repository returns what begins with a registry, such as a repository or the
// name of an image, with the canonical name of the registry.
func Repository(name string) string {
	host, path, ok := strings.Cut(name, "/")
	if canonical := Canonical(host); ok && canonical != host {
		return canonical + "/" + path
	}
	return name
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
