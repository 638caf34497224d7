// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/version"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestListingFollowsChanges lists images after each kind of change, by each way to list
// them: what is remembered of one listing for the next is never shown once it is wrong.
func TestListingFollowsChanges(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	a, b, copied := nodetest.Named("app:1"), nodetest.Named("other:1"), nodetest.Named("copied:1")
	n.Push("app:1", nodetest.Image(1))
	n.Push("other:1", nodetest.Image(2))
	streams := !strings.HasPrefix(version.Version, "2.3.")

	// names are those of the listed images, each of which must be as ImageStatus, which
	// remembers nothing, has it.
	names := func() (all []string) {
		listings := [][]*runtimeapi.Image{n.List()}
		if streams {
			streamed, err := stream(n)
			n.Must(err)
			listings = append(listings, streamed)
		}
		for i, listed := range listings {
			all = nil
			for _, image := range listed {
				if diff := cmp.Diff(n.Status(image.GetId()).GetImage(), image, protocmp.Transform()); diff != "" {
					t.Errorf("listing %d: of image %s (-status +listed):\n%s", i, image.GetId(), diff)
				}
				all = append(all, image.GetRepoTags()...)
			}
		}
		slices.Sort(all)
		return all
	}
	for _, step := range []struct {
		what   string
		change func()
		want   []string
	}{
		{"nothing there", func() {}, nil},
		{"pulled", func() { n.MustPull(a) }, []string{a}},
		{"another one", func() { n.MustPull(b) }, []string{a, b}},
		{"nothing changed", func() {}, []string{a, b}},
		{"a label", func() { n.SetLabels(b, map[string]string{"pullwarden.io/pull-source": "elsewhere.test/other:1"}) }, []string{a, b}},
		{"stale", func() {
			n.Registry.Refuse()
			n.MustPull(a, node.Hint("policy", "IfDigestChanged"))
			n.Restore()
		}, []string{a, b}},
		{"checked again", func() { n.MustPull(a) }, []string{a, b}},
		{"moved by a client", func() { n.ImportOver(b, nodetest.Image(3)) }, []string{a, b}},
		{"a second name", func() { n.TagLocal(a, copied); n.WaitForImage(copied) }, []string{a, copied, b}},
		{"changed in the registry", func() { n.Push("app:1", nodetest.Image(4)); n.MustPull(a) }, []string{a, copied, b}},
		{"removed by CRI", func() { n.Remove(b) }, []string{a, copied}},
		{"restarted", func() { n.Restart() }, []string{a, copied}},
		{"restarted, nothing changed", func() {}, []string{a, copied}},
	} {
		step.change()
		if got := names(); !slices.Equal(got, step.want) {
			t.Errorf("%s: the tags are %v, want %v", step.what, got, step.want)
		}
	}
	nodetest.Want(t, "log lines of a store that is not known", len(n.LogLines(0, "each listing of images")), 0)
}
