// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"time"

	"github.com/pelletier/go-toml/v2"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Config is what has to be known of the configuration of containerd's own CRI
// plugins. Their types are internal, but they marshal to the TOML that the
// operator wrote.
type Config struct {
	// Snapshotter is the default one.
	Snapshotter string
	// Snapshotters are those of runtime handlers that have one of their own.
	Snapshotters map[string]string
	// ConfigPath lists the directories of hosts.toml trees, separated by ':'.
	ConfigPath string
	// Mirrors and Auths are deprecated and used when ConfigPath is empty.
	Mirrors map[string][]string
	Auths   map[string]*runtime.AuthConfig
	// Headers go with every request to a registry.
	Headers map[string][]string
	// PullProgressTimeout is image_pull_progress_timeout: a transfer ends when no
	// byte of it comes for that long. 0 is without a bound.
	PullProgressTimeout time.Duration
	// LocalPull is use_local_image_pull: CRI pulls without the transfer service.
	LocalPull bool
}

type imagesTOML struct {
	Snapshotter      string `toml:"snapshotter"`
	UseLocalPull     bool   `toml:"use_local_image_pull"`
	ProgressTimeout  string `toml:"image_pull_progress_timeout"`
	RuntimePlatforms map[string]struct {
		Snapshotter string `toml:"snapshotter"`
	} `toml:"runtime_platforms"`
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

type runtimeTOML struct {
	Containerd struct {
		Runtimes map[string]struct {
			Snapshotter string `toml:"snapshotter"`
		} `toml:"runtimes"`
	} `toml:"containerd"`
}

// ReadConfig reads the configuration that the CRI image plugin and the CRI
// runtime plugin were started with. The second may be nil.
func ReadConfig(imagePlugin, runtimePlugin any) (Config, error) {
	var images imagesTOML
	if err := remarshal(imagePlugin, &images); err != nil {
		return Config{}, fmt.Errorf("read the configuration of CRI's image plugin: %w", err)
	}
	var runtimes runtimeTOML
	if runtimePlugin != nil {
		if err := remarshal(runtimePlugin, &runtimes); err != nil {
			return Config{}, fmt.Errorf("read the configuration of CRI's runtime plugin: %w", err)
		}
	}
	c := Config{
		Snapshotter:  images.Snapshotter,
		Snapshotters: map[string]string{},
		ConfigPath:   images.Registry.ConfigPath,
		Mirrors:      map[string][]string{},
		Auths:        map[string]*runtime.AuthConfig{},
		Headers:      images.Registry.Headers,
		LocalPull:    images.UseLocalPull,
	}
	if images.ProgressTimeout != "" {
		var err error
		if c.PullProgressTimeout, err = time.ParseDuration(images.ProgressTimeout); err != nil {
			return Config{}, fmt.Errorf("image_pull_progress_timeout of CRI's image plugin: %w", err)
		}
	}
	for name, platform := range images.RuntimePlatforms {
		if platform.Snapshotter != "" {
			c.Snapshotters[name] = platform.Snapshotter
		}
	}
	for name, r := range runtimes.Containerd.Runtimes {
		if r.Snapshotter != "" {
			c.Snapshotters[name] = r.Snapshotter
		}
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

// auth returns the deprecated static credentials for a host, or nil.
func (c Config) auth(host string) *runtime.AuthConfig { return c.Auths[host] }

// runtimeHandlerAnnotation is what clients that do not send the runtime
// handler with the image put into the sandbox config. Deprecated in containerd.
const runtimeHandlerAnnotation = "io.containerd.cri.runtime-handler"

// snapshotter returns the one that containerd will unpack the image of the
// request with.
func (c Config) snapshotter(r *runtime.PullImageRequest) string {
	if r.GetSandboxConfig() == nil {
		return c.Snapshotter
	}
	handler := r.GetImage().GetRuntimeHandler()
	if handler == "" {
		handler = r.GetSandboxConfig().GetAnnotations()[runtimeHandlerAnnotation]
	}
	if s, ok := c.Snapshotters[handler]; ok {
		return s
	}
	return c.Snapshotter
}
