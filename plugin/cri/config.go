// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/store"
)

// Config is what has to be known of the configuration of CRI's image plugin to
// ask registries. Its type is internal to containerd, but marshals to the TOML
// that the operator wrote.
type Config struct {
	// ConfigPath lists the directories of hosts.toml trees, separated by ':'.
	ConfigPath string
	// Mirrors and Auths are deprecated and used when ConfigPath is empty.
	Mirrors map[string][]string
	Auths   map[string]*runtime.AuthConfig
	// Headers go with every request to a registry.
	Headers map[string][]string
}

type imagesTOML struct {
	Registry struct {
		ConfigPath string `toml:"config_path"`
		Mirrors    map[string]struct {
			Endpoints []string `toml:"endpoint"`
		} `toml:"mirrors"`
		Configs map[string]struct {
			Auth *struct {
				Username      string `toml:"username"`
				Password      string `toml:"password"`
				Auth          string `toml:"auth"`
				IdentityToken string `toml:"identitytoken"`
			} `toml:"auth"`
		} `toml:"configs"`
		Headers map[string][]string `toml:"headers"`
	} `toml:"registry"`
}

// ReadConfig reads the configuration that CRI's image plugin was started with.
func ReadConfig(imagePlugin any) (Config, error) {
	var images imagesTOML
	if err := remarshal(imagePlugin, &images); err != nil {
		return Config{}, fmt.Errorf("read the configuration of CRI's image plugin: %w", err)
	}
	c := Config{
		ConfigPath: images.Registry.ConfigPath,
		Mirrors:    map[string][]string{},
		Auths:      map[string]*runtime.AuthConfig{},
		Headers:    images.Registry.Headers,
	}
	for host, mirror := range images.Registry.Mirrors {
		c.Mirrors[host] = mirror.Endpoints
	}
	for host, config := range images.Registry.Configs {
		if a := config.Auth; a != nil {
			c.Auths[host] = &runtime.AuthConfig{
				Username: a.Username, Password: a.Password, Auth: a.Auth, IdentityToken: a.IdentityToken,
			}
		}
	}
	return c, nil
}

func remarshal(from, to any) error {
	data, err := toml.Marshal(from)
	if err != nil {
		return err
	}
	return toml.Unmarshal(data, to)
}

// auth returns the deprecated static credentials for a host, or nil: those of another spelling
// of its name where that very one has none, of the first by name.
func (c Config) auth(host string) *runtime.AuthConfig {
	if a, ok := c.Auths[host]; ok {
		return a
	}
	var found *runtime.AuthConfig
	first := ""
	for name, a := range c.Auths {
		if sameRegistry(name, host) && (found == nil || name < first) {
			found, first = a, name
		}
	}
	return found
}

// credentials returns those of a request, else those that CRI's deprecated
// registry.configs have for a host, as containerd's own pull does; nil where there are none at all.
func (c Config) credentials(auth *runtime.AuthConfig) func(host string) (string, string, error) {
	if auth == nil && len(c.Auths) == 0 {
		return nil
	}
	return func(host string) (string, string, error) {
		if auth == nil {
			return credentialsFor(c.auth(host), host)
		}
		return credentialsFor(auth, host)
	}
}

// shown stands for the credentials that credentials returns in the place of a request's own; "" = it
// returns none but these. It is one for all hosts: each may redirect to any other, and the
// configuration changes with a restart alone.
func (c Config) shown(auth *runtime.AuthConfig, key *store.Key) store.Fingerprint {
	if auth != nil || len(c.Auths) == 0 {
		return ""
	}
	var all strings.Builder
	for _, host := range slices.Sorted(maps.Keys(c.Auths)) {
		a := c.Auths[host]
		fmt.Fprintf(&all, "%q %q %q %q %q\n", host, a.GetUsername(), a.GetPassword(), a.GetAuth(), a.GetIdentityToken())
	}
	return key.ConfiguredFingerprint(all.String())
}
