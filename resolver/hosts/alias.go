// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/pkg/reference"

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// Alias is one host that a pull may ask, and what it calls the image.
type Alias struct {
	Scheme    string // that it is asked by alone; "" when plain HTTP is configured, which may lead to HTTPS
	Host      string // as its requests name it: registry-1.docker.io
	Name      string // as references spell it: docker.io
	Reference string // "" when the host is configured under several paths
}

// Aliases returns the hosts that a pull of the reference by containerd's own
// resolver asks, in their order. hostDirs are the roots of trees of
// hosts.toml files, of which the first that has a directory for the host decides; defaultScheme is for hosts that are not configured, ""
// for containerd's choice.
func Aliases(ctx context.Context, ref string, hostDirs []string, defaultScheme string) ([]Alias, error) {
	spec, err := reference.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("reference %q: %w", ref, err)
	}
	dir, err := dirOf(hostDirs, spec.Hostname())
	if err == nil {
		// containerd would wait for a FIFO, and take a hosts.toml that does not
		// parse for a directory of certificates.
		_, err = readState(spec.Hostname(), dir)
	}
	if err != nil {
		return nil, fmt.Errorf("hosts of %s: %w", spec.Hostname(), err)
	}
	options := config.HostOptions{DefaultScheme: defaultScheme}
	if dir != "" {
		options.HostDir = func(string) (string, error) { return dir, nil }
	}
	configured, err := config.ConfigureHosts(new(redact.Redactor).WithQuietLogger(ctx), options)(spec.Hostname())
	if err != nil {
		return nil, fmt.Errorf("hosts of %s: %w", spec.Hostname(), err)
	}
	var aliases []Alias
	for _, c := range configured {
		h := Host{RegistryHost: c}
		a := Alias{Host: c.Host, Name: h.Name(), Reference: h.Reference(spec)}
		if c.Client != nil {
			// containerd puts another one around it to fall back to HTTP.
			if _, bare := c.Client.Transport.(*http.Transport); bare && c.Scheme == "https" {
				a.Scheme = c.Scheme
			}
			c.Client.CloseIdleConnections()
		}
		i := slices.IndexFunc(aliases, func(other Alias) bool { return other.Host == a.Host })
		if i < 0 {
			aliases = append(aliases, a)
			continue
		}
		if aliases[i].Scheme != a.Scheme {
			aliases[i].Scheme = ""
		}
		if aliases[i].Reference != a.Reference {
			aliases[i].Reference = ""
		}
	}
	return aliases, nil
}
