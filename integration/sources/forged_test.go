// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// chained is a node with two images, each of a registry of its own, both unpacked. The
// forbidden one came after the allowed one.
type chained struct {
	*nodetest.Node
	allowed, forbidden   *resolvertest.Registry
	image, elsewhere     v1.Image
	allowedName, badName string
}

// newChained starts the node. bring has the forbidden image come.
func newChained(t *testing.T, bring func(c *chained, ref string), opts ...nodetest.Option) *chained {
	t.Helper()
	c := &chained{
		Node: nodetest.Start(t, opts...), allowed: resolvertest.New(t), forbidden: resolvertest.New(t),
		image: nodetest.Image(1), elsewhere: nodetest.Image(2), allowedName: "good.test", badName: "bad.test",
	}
	c.Serve(c.allowedName, c.allowed)
	c.Serve(c.badName, c.forbidden)
	c.PushTo(c.allowed, "app:1", c.image)
	c.PushTo(c.forbidden, "app:1", c.elsewhere)
	c.MustPull(c.allowedName + "/app:1")
	bring(c, c.badName+"/app:1")
	return c
}

// config returns the config of the forbidden image, made another by its author: its layers
// are what a container of it runs.
func (c *chained) config(author string) *v1.ConfigFile {
	c.T.Helper()
	config, err := c.elsewhere.ConfigFile()
	c.Must(err)
	config = config.DeepCopy()
	config.Author = author
	return config
}

// forged returns images whose configs name the layers of the forbidden image, by what
// their manifests name in the place of these.
func (c *chained) forged() map[string]v1.Image {
	c.T.Helper()
	layersOf := func(of v1.Image) []v1.Layer {
		layers, err := of.Layers()
		c.Must(err)
		return layers
	}
	junk := static.NewLayer([]byte("junk"), "application/x-junk")
	all := map[string]v1.Image{}
	for what, layers := range map[string][]v1.Layer{
		"those of the allowed image":  layersOf(c.image),
		"none":                        nil,
		"one of the allowed image":    layersOf(c.image)[:1],
		"what nobody unpacks":         {junk, junk},
		"a layer more than there are": append(layersOf(c.image), static.NewLayer([]byte("more"), types.DockerLayer)),
	} {
		img, err := mutate.AppendLayers(empty.Image, layers...)
		c.Must(err)
		img, err = mutate.ConfigFile(img, c.config(what))
		c.Must(err)
		all[what] = img
	}
	return all
}

// wantRefused holds that no image runs under a rule for the allowed registry, and those other hosts, alone, of
// which another one has served the layers that are unpacked.
func (c *chained) wantRefused(others ...string) {
	c.T.Helper()
	allowed := strings.Join(append(others, c.allowed.Host()), `", "`)
	c.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\nallowed_sources = [\"%s\"]\n", allowed))
	i := 0
	for what, img := range c.forged() {
		i++
		ref := fmt.Sprintf("%s/forged:%d", c.allowedName, i)
		c.PushTo(c.allowed, fmt.Sprintf("forged:%d", i), img)
		for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
			if _, err := c.Pull(ref, node.Hint("policy", policy)); err == nil {
				c.T.Errorf("with %s in the place of the layers, %s: it is pulled, with labels %v", what, policy, c.Labels(ref))
			}
		}
	}
	c.MustPull(c.allowedName + "/app:1")
}

// TestAllowedSourcesOfForgedConfigs has the registry that a rule allows serve images whose
// configs name layers that are on the node already, from elsewhere: containerd takes what is
// unpacked for them, whatever layers the manifest has.
func TestAllowedSourcesOfForgedConfigs(t *testing.T) {
	t.Parallel()
	for what, bring := range map[string]func(c *chained, ref string){
		"pulled by a pod": func(c *chained, ref string) { c.MustPull(ref) },
		"pulled by ctr":   func(c *chained, ref string) { c.Transfer(ref) },
		"imported": func(c *chained, ref string) {
			c.Import(ref, c.elsewhere)
			img, err := c.Client.GetImage(c.T.Context(), ref)
			c.Must(err)
			c.Must(img.Unpack(c.T.Context(), ""))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			newChained(t, bring).wantRefused()
		})
		t.Run(what+" with layers discarded", func(t *testing.T) {
			t.Parallel()
			newChained(t, bring, nodetest.CRIImages("discard_unpacked_layers = true")).wantRefused()
		})
	}
}
