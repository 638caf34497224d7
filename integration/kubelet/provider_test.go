// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	// providerEnv makes this program a credential provider plugin of the kubelet. It
	// names the file of what the plugin answers with.
	providerEnv = "PULLWARDEN_PROVIDER"

	providers   = "/run/providers" // the directory of plugins
	robot       = "robot"          // the user whose password the plugin has
	oldPassword = "password of the robot"
	newPassword = "its next password"
)

// provide answers a kubelet that asks a credential provider plugin for the credentials of
// an image.
func provide() {
	_, err := io.Copy(io.Discard, os.Stdin)
	answer, err2 := os.ReadFile(os.Getenv(providerEnv))
	if err := errors.Join(err, err2); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = os.Stdout.Write(answer)
}

// Provider is the credential provider plugin of a kubelet.
type Provider struct {
	k    *Kubelet
	file string // of its answer
}

// onProvider is onNode with a registry that wants credentials, and with a kubelet that
// has those of all pods from a credential provider plugin, which it asks for each image.
func onProvider(t *testing.T, test func(*Kubelet, *Provider)) {
	t.Helper()
	alone(t, func(t *testing.T) {
		r := resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{robot: oldPassword}))
		k := newKubelet(t, r, nodetest.Section(nodetest.IfDigestChanged))
		p := &Provider{k, "/run/provider-answer.json"}
		p.install()
		k.Start()
		test(k, p)
	})
}

// install makes a plugin of this program, and tells the kubelet.
func (p *Provider) install() {
	n := p.k.Node
	n.T.Helper()
	self, err := os.ReadFile("/proc/self/exe") // its path may be below what is mounted over
	n.Must(err)
	n.Must(os.MkdirAll(providers, 0o700))
	n.Must(os.WriteFile(filepath.Join(providers, "robots"), self, 0o700))
	n.Write("/run/providers.json", marshal(p.k.T, map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig",
		"providers": []any{map[string]any{
			"name": "robots", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
			"matchImages": []string{"registry.test"}, "defaultCacheDuration": "0s",
			"env": []any{map[string]string{"name": providerEnv, "value": p.file}},
		}},
	}))
	p.k.Flags = []string{"--image-credential-provider-config", "/run/providers.json", "--image-credential-provider-bin-dir", providers}
}

// Gives has the plugin give the robot's name with that password from now on.
func (p *Provider) Gives(password string) {
	p.k.T.Helper()
	p.k.Node.Write(p.file, marshal(p.k.T, map[string]any{
		"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse", "cacheKeyType": "Image",
		"auth": map[string]any{"registry.test": map[string]string{"username": robot, "password": password}},
	}))
}

// Fails has the plugin fail from now on.
func (p *Provider) Fails() {
	p.k.T.Helper()
	p.k.Node.Must(os.Remove(p.file))
}
