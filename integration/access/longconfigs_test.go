// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// configured is an image that runs, but for what is changed of its config.
func configured(t *testing.T, n *nodetest.Node, change func(*v1.Config)) v1.Image {
	t.Helper()
	img := nodetest.Busybox(t, 1, "sleep", "86400")
	config, err := img.ConfigFile()
	n.Must(err)
	config = config.DeepCopy()
	change(&config.Config)
	img, err = mutate.ConfigFile(img, config)
	n.Must(err)
	return img
}

// TestLongConfigs has images whose configs have CRI write megabytes into its log for each container, and into
// the container's error: none is pulled. One that has the log of a container say much, within the bounds, runs.
func TestLongConfigs(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t))
	reserved := func(labels int) map[string]string {
		all := map[string]string{"io.buildpacks.build.metadata": strings.Repeat("v", 100_000)}
		for i := range labels {
			all[fmt.Sprintf("containerd.io/%05d", i)] = ""
		}
		return all
	}
	long := "/" + strings.Repeat("x", 3_900_000)
	for what, tc := range map[string]struct {
		change func(*v1.Config)
		field  string
	}{
		"label":    {func(c *v1.Config) { c.Labels = map[string]string{long: "v"} }, "a key of config.Labels has"},
		"reserved": {func(c *v1.Config) { c.Labels = reserved(10_000) }, "config.Labels has"},
		"volume":   {func(c *v1.Config) { c.Volumes = map[string]struct{}{long: {}} }, "a key of config.Volumes has"},
		"program":  {func(c *v1.Config) { c.Entrypoint = []string{long} }, "config.Entrypoint[0] has"},
		"command":  {func(c *v1.Config) { c.Entrypoint, c.Cmd = []string{""}, []string{long} }, "config.Cmd[0] has"},
		"place":    {func(c *v1.Config) { c.WorkingDir = long }, "config.WorkingDir has"},
		"signal":   {func(c *v1.Config) { c.StopSignal = long }, "config.StopSignal has"},
	} {
		n.Push(what+":1", configured(t, n, tc.change))
		err := n.MustFail(nodetest.Named(what+":1"), []string{"invalid", tc.field})
		if len(err.Error()) > 2000 {
			t.Errorf("%s: an error of %d bytes", what, len(err.Error()))
		}
	}
	n.Push("fine:1", configured(t, n, func(c *v1.Config) { c.Labels = reserved(60) }))
	pod := n.RunPod(resolvertest.New(t))
	pod.Run("fine", n.MustPull(nodetest.Named("fine:1"), pod.Pulls()), nodetest.Named("fine:1"), nil)
}

// carol has a secret that is no word, which her registry repeats.
var carol = caller{"carol", "correct-horse-battery"}

// carols is a node that makes containers, and a registry that wants carol's password.
func carols(t *testing.T) (*nodetest.Node, *guarded) {
	n := nodetest.New(t, nodetest.Containers(t))
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test", carol)
	g.serve(n)
	return n, g
}

// TestSecretsInConfigs has a registry write the password that it was sent into the config of its image, where CRI
// and runtimes repeat it in their logs and errors: no such image is pulled, and the error has no password.
func TestSecretsInConfigs(t *testing.T) {
	t.Parallel()
	n, g := carols(t)
	mark := n.Mark()
	for what, change := range map[string]func(c *v1.Config){
		"label":   func(c *v1.Config) { c.Labels = map[string]string{"containerd.io/" + carol.password: ""} },
		"program": func(c *v1.Config) { c.Entrypoint = []string{"/" + strings.ToUpper(carol.password)} },
		"command": func(c *v1.Config) { c.Entrypoint, c.Cmd = nil, []string{carol.password} },
		"nothing": func(c *v1.Config) { c.Entrypoint, c.Cmd = []string{""}, []string{"/" + carol.password} },
		"user":    func(c *v1.Config) { c.User = carol.password },
		"volume":  func(c *v1.Config) { c.Volumes = map[string]struct{}{"/correct%2Dhorse%2Dbattery": {}} },
	} {
		n.PushTo(g.Registry, "private/"+what+":1", configured(t, n, change))
		n.MustFail("r.test/private/"+what+":1", []string{"invalid", "has a secret of the request"}, carol.secret())
	}
	for _, line := range n.LogLines(mark, carol.password) {
		t.Errorf("it is told: %s", line)
	}
}

// TestSecretsInConfigsOfAnotherType has the config called something that it is not, and one that has come beside the
// layers of another image: CRI reads it all the same.
func TestSecretsInConfigsOfAnotherType(t *testing.T) {
	t.Parallel()
	n, g := carols(t)
	refused := []string{"invalid", "has a secret of the request"}
	said := configured(t, n, func(c *v1.Config) { c.Labels = map[string]string{"containerd.io/" + carol.password: ""} })
	for i, typ := range []types.MediaType{"application/octet-stream", "application/vnd.docker.container.image.v2+json"} {
		ref := fmt.Sprintf("private/type%d:1", i)
		n.PushTo(g.Registry, ref, mutate.ConfigMediaType(said, typ))
		n.MustFail("r.test/"+ref, refused, carol.secret())
		n.MustFail("r.test/"+ref, refused, carol.secret()) // its manifest may be there
	}

	blob, err := said.RawConfigFile()
	n.Must(err)
	plain := configured(t, n, func(*v1.Config) {})
	config, err := plain.ConfigFile() // without the blob
	n.Must(err)
	img, err := mutate.Append(plain, mutate.Addendum{Layer: static.NewLayer(blob, "application/x-note")})
	n.Must(err)
	img, err = mutate.ConfigFile(img, config)
	n.Must(err)
	n.PushTo(g.Registry, "private/app:1", img)
	n.MustPull("r.test/private/app:1", carol.secret())
	n.PushTo(g.Registry, "private/app:1", said)
	n.MustFail("r.test/private/app:1", refused, carol.secret())
}
