// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hosts reads which hosts a pull may ask.
package hosts

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/pkg/reference"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
)

// Alias is one host that a pull may ask, and the name it has for the image.
type Alias struct {
	Host      string // as its requests name it: registry-1.docker.io
	Name      string // as references spell it: docker.io
	Reference string // "" when the host is configured under several paths
}

// Aliases returns the hosts that a pull of the reference by containerd's own
// resolver asks, in their order. hostDir is the root of a tree of hosts.toml
// files, "" for none; defaultScheme is for hosts that are not configured, ""
// for containerd's choice.
func Aliases(ctx context.Context, ref, hostDir, defaultScheme string) ([]Alias, error) {
	spec, err := reference.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("reference %q: %w", ref, err)
	}
	options := config.HostOptions{DefaultScheme: defaultScheme}
	if hostDir != "" {
		options.HostDir = config.HostDirFromRoot(hostDir)
	}
	configured, err := config.ConfigureHosts(withoutLog(ctx), options)(spec.Hostname())
	if err != nil {
		return nil, fmt.Errorf("hosts of %s: %w", spec.Hostname(), err)
	}
	var aliases []Alias
	for _, c := range configured {
		a := Alias{Host: c.Host, Name: nameOf(c), Reference: referenceOf(c, spec)}
		i := slices.IndexFunc(aliases, func(other Alias) bool { return other.Host == a.Host })
		switch {
		case i < 0:
			aliases = append(aliases, a)
		case aliases[i].Reference != a.Reference:
			aliases[i].Reference = ""
		}
		if c.Client != nil {
			c.Client.CloseIdleConnections()
		}
	}
	return aliases, nil
}

// withoutLog returns a context in which nothing of hosts.toml, which may hold
// credentials, is logged.
func withoutLog(ctx context.Context) context.Context {
	silent := logrus.New()
	silent.SetOutput(io.Discard)
	return log.WithLogger(ctx, logrus.NewEntry(silent))
}

// nameOf returns the host as references spell it.
func nameOf(h docker.RegistryHost) string {
	if own, err := docker.DefaultHost("docker.io"); err == nil && h.Host == own {
		return "docker.io"
	}
	return h.Host
}

// referenceOf returns the name that the host has for the image of spec. The
// part of its path after the API's root (https://host/v2/project with
// override_path) belongs to the repository.
func referenceOf(h docker.RegistryHost, spec reference.Spec) string {
	_, project, _ := strings.Cut(h.Path+"/", "/v2/")
	repository := strings.TrimPrefix(spec.Locator, spec.Hostname()+"/")
	return reference.Spec{Locator: path.Join(nameOf(h), project, repository), Object: spec.Object}.String()
}
