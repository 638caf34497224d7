// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestStrictByID holds that an image's ID is no way around a proof for a pod that names it, and that the
// kubelet finds the volumes of a pod by it. The beginning of an ID is none for a pod: whether it is
// ambiguous would tell of images that the pod may not see.
func TestStrictByID(t *testing.T) {
	t.Parallel()
	n := withPods(t, strict+"policy = 'IfDigestChanged'\n")
	r := resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "alice's password"}))
	r.Allow(func(user, repository string) bool { return user == "alice" || repository == "public/app" })
	n = n.With(r)
	n.Push("public/app:1", nodetest.Busybox(t, 1, "sleep", "86400"))
	n.Push("private/app:1", nodetest.Image(1))
	n.Push("private/both:1", nodetest.Image(2))
	n.Push("public/app:both", nodetest.Image(2))
	tool, id := n.MustPull(nodetest.Named("public/app:1")), n.MustPull(nodetest.Named("private/app:1"), alice)
	both := n.MustPull(nodetest.Named("private/both:1"), alice)
	short := func(id string) string { return id[:len("sha256:")+12] }

	owner, thief := newPod(n, "default", "owner"), newPod(n, "default", "thief")
	for _, p := range []*pod{owner, thief} {
		p.run()
		p.wants(tool, true, true)
		for _, ref := range []string{id, short(tool), short(id), "sha256:", both} {
			p.wants(ref, false, false)
		}
	}
	n.MustPull(nodetest.Named("public/app:both")) // everybody may have it by another name
	thief.wants(both, true)
	owner.runWithVolume(tool, id)
	owner.wants(id, true, true)
	thief.wants(id, false)
	thief.seenAgain() // nobody knows which pod asks: the volume may be another's
	thief.wants(id, false, false)
	if n.Status(id).GetImage().GetId() != id || n.Status(short(id)).GetImage().GetId() != id {
		t.Error("crictl does not find the image by its ID")
	}
	n.WriteRules("10.toml", everywhere)
	thief.wants(id, true)
}

// TestStrictByIDOfManyNames holds that an image with many names is shown by its ID to who may have it by
// the digest of a repository, of which all tags share the proofs. The many tags are not all looked at.
func TestStrictByIDOfManyNames(t *testing.T) {
	t.Parallel()
	n := guarded(t, strict+"policy = 'IfDigestChanged'\n")
	for i := range 40 {
		tag := fmt.Sprintf("private/app:%02d", i)
		n.Push(tag, nodetest.Image(1))
		n.MustPull(nodetest.Named(tag), alice)
	}
	n.Push("public/app:zz", nodetest.Image(1))
	id := n.MustPull(nodetest.Named("private/app:39"), alice)
	thief := newPod(n, "default", "thief")
	thief.wants(id, false)
	n.MustPull(nodetest.Named("public/app:zz")) // everybody may have it by another name
	thief.wants(id, true)
}

// TestStrictByIDOfALostName holds that an image that has lost all its names, because its tag
// has moved on, is shown by its ID to no pod while a rule has each start proved: nobody can
// say which rules it is for.
func TestStrictByIDOfALostName(t *testing.T) {
	t.Parallel()
	n := guarded(t, strict+"policy = 'IfDigestChanged'\n")
	ref := nodetest.Named("private/app:1")
	n.Import(ref, nodetest.Image(1))
	id := n.Status(ref).GetImage().GetId()
	thief := newPod(n, "default", "thief")
	thief.wants(id, false)
	n.Push("private/app:1", nodetest.Image(2))
	n.MustPull(ref, alice)
	if image := n.Status(id).GetImage(); image.GetId() != id || len(image.GetRepoTags())+len(image.GetRepoDigests()) > 0 {
		t.Fatalf("the image has names: %v", image)
	}
	thief.wants(id, false, false)
	n.WriteRules("10.toml", everywhere)
	thief.wants(id, true)
}

// runWithVolume creates a container that has an image as a volume.
func (p *pod) runWithVolume(id, volume string) {
	p.T.Helper()
	mount := &runtimeapi.Mount{ContainerPath: "/volume", Readonly: true, Image: &runtimeapi.ImageSpec{Image: volume, Annotations: p.annotations}}
	if err := p.creates("app", id, mount); err != nil {
		p.T.Fatalf("create a container with a volume: %v", err)
	}
}
