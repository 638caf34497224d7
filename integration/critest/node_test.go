// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package critest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// registries are those that critest names. One registry of the test is behind all
// of them.
var registries = []string{"gcr.io", "registry.k8s.io", "k8s.gcr.io", "pause.test"}

// staging is where critest has its images.
const staging = "k8s-staging-cri-tools/"

// newRegistry returns a registry with images like those that critest names: the
// same users, the same tags for one image, or for several.
func newRegistry(t *testing.T) *resolvertest.Registry {
	t.Helper()
	r := resolvertest.New(t)
	seed := int64(0)
	push := func(user string, refs ...string) {
		t.Helper()
		seed++
		img := withUser(t, nodetest.Busybox(t, seed, "sleep", "86400"), user)
		for _, ref := range refs {
			if _, err := r.Push(t.Context(), ref, img); err != nil {
				t.Fatal(err)
			}
		}
	}
	push("1002", staging+"test-image-user-uid:latest")
	push("www-data", staging+"test-image-user-username:latest")
	push("1003:users", staging+"test-image-user-uid-group:latest")
	push("www-data:100", staging+"test-image-user-username-group:latest")
	push("", staging+"test-image-latest:latest")
	push("", staging+"test-image-tag:test")
	push("", staging+"test-image-tag:all")
	push("", staging+"test-image-1:latest")
	push("", staging+"test-image-2:latest")
	push("", staging+"test-image-3:latest")
	push("", staging+"test-image-tags:1", staging+"test-image-tags:2", staging+"test-image-tags:3")
	push("", "pause:3.9")
	push("", "pause:1")
	push("", "e2e-test-images/busybox:1.29-2")
	return r
}

// withUser sets the user that containers of the image run as; "" for none.
func withUser(t *testing.T, img v1.Image, user string) v1.Image {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.Config.User = user
	img, err = mutate.Config(img, config.Config)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// newNode starts a node that finds that registry under the names of critest, and
// that runs pods.
func newNode(t *testing.T, r *resolvertest.Registry, opts ...nodetest.Option) *nodetest.Node {
	t.Helper()
	n := nodetest.Prepare(t, append(opts, nodetest.Containers(t))...)
	for _, name := range registries {
		n.Serve(name, r)
	}
	writeCNI(n)
	n.Start()
	t.Cleanup(n.KillShims)
	return n
}

// cni is a plugin that gives each pod an address, and connects it to nothing.
const cni = `#!/bin/sh
case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
ADD) cat <<END
{"cniVersion": "1.0.0", "interfaces": [{"name": "$CNI_IFNAME", "sandbox": "$CNI_NETNS"}],
 "ips": [{"address": "10.88.0.2/16", "interface": 0}]}
END
;;
esac
`

// writeCNI writes the plugin under its own name and that of the loopback plugin,
// and a network of it.
func writeCNI(n *nodetest.Node) {
	n.T.Helper()
	for _, name := range []string{"loopback", "unconnected"} {
		path := n.Path("cni", "bin", name)
		n.Must(os.MkdirAll(filepath.Dir(path), 0o700))
		n.Must(os.WriteFile(path, []byte(cni), 0o700))
	}
	n.Write(n.Path("cni", "net.d", "10-unconnected.conflist"),
		fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %[1]q, "plugins": [{"type": %[1]q}]}`, "unconnected"))
}
