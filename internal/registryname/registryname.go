// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registryname knows which names of registries mean the same one. Image
// records keep the names by which they were asked for; whatever is decided about
// a registry is decided about all of its names.
package registryname

import (
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
// without the port of HTTPS, and docker.io for Docker Hub.
func Canonical(host string) string {
	host = withoutPort(strings.ToLower(host), httpsPort)
	if slices.Contains(hubAliases, host) {
		return dockerHub
	}
	return host
}

// Address returns the one name of a host under a URL's scheme, whose default
// port is left out.
func Address(scheme, host string) string {
	if strings.EqualFold(scheme, "http") {
		return withoutPort(strings.ToLower(host), httpPort)
	}
	return Canonical(host)
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
