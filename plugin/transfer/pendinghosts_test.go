// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/isolation"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// Of the hosts of a download that goes on from pull to pull no more are remembered than have room in a label; the
// same ones, left out once more, make no more of them.
func TestHostsOfPendingDownloadsAreBounded(t *testing.T) {
	n := newNode(t, true)
	s := n.tracker.Load().contents
	d := digest.FromString("a layer")
	for range 3 {
		p := provenance.Provenance{Hosts: []string{"registry.test"}}
		for i := range 256 {
			p.Hosts = append(p.Hosts, fmt.Sprintf("10.0.%d.1:%s80", i, strings.Repeat("0", 50)))
		}
		s.add(n.ctx, d, p)
	}
	got := s.pendingOf(keyOf(n.ctx, d))
	if len(strings.Join(got.Hosts, ",")) > 512 || got.More+len(got.Hosts) != 257 || !slices.Contains(got.Hosts, "registry.test") {
		t.Errorf("%d hosts and %d more: %v", len(got.Hosts), got.More, got.Hosts)
	}
}

// A layer of which it is not known any more who has served its beginning, or nobody can say who serves its rest, is not said
// to be of the others alone. That is so after a restart, and after a tenant's registry has broken off as many layers as are
// remembered, which takes some 180 pulls. Where no urls are followed, the hosts that may be asked have served it.
func TestSourcesOfADownloadWhoseBeginningIsForgotten(t *testing.T) {
	evicted := func(n *node) {
		tenant := isolation.With(n.ctx, isolation.Source{Repository: "evil.test/app", Hosts: []string{"evil.test"}, Caller: "mallory"}.Scope())
		for i := range maxPending {
			n.tracker.Load().contents.add(tenant, digest.FromString(fmt.Sprint(i)), provenance.Provenance{Hosts: []string{"evil.test"}})
		}
	}
	for what, tc := range map[string]struct {
		between func(*node)
		only    bool // the registry's hosts serve
		silent  bool // nobody can say who serves the rest
		want    string
	}{
		"nothing happens":           {func(*node) {}, false, false, "b,a"},
		"evicted":                   {evicted, false, false, "a,+1 more"},
		"evicted, registry only":    {evicted, true, false, "b,a"},
		"restarted":                 {func(n *node) { n.Track(n.tracker.Load().config) }, false, false, "a,+1 more"},
		"restarted, registry only":  {func(n *node) { n.Track(n.tracker.Load().config) }, true, false, "b,a"},
		"the rest is of who knows":  {func(*node) {}, false, true, "b,+1 more"},
		"all of it is of who knows": {evicted, false, true, ""},
	} {
		t.Run(what, func(t *testing.T) {
			n, img := newNode(t, true), newImage("a layer that takes two attempts")
			layer := img.layers[0]
			scope := isolation.Source{Repository: "registry.test/app", Hosts: []string{"b", "a"}, Caller: "alice", RegistryOnly: tc.only}.Scope()
			pull := func(source *fakeSource) error {
				p := &Plan{Reference: appName, Source: source, Scope: scope, State: func(_ digest.Digest, before store.State) store.State { return before }}
				if tc.silent && source.cut == nil {
					p.Source = &forgetful{source, layer.Digest}
				}
				return n.Pull(n.ctx, p, image.NewStore(appName))
			}
			first := &fakeSource{fakeImage: img, host: "a", by: map[digest.Digest]string{layer.Digest: "b"}, cut: map[digest.Digest]int{layer.Digest: 5}}
			if err := pull(first); !errors.Is(err, errGone) {
				t.Fatalf("the first pull ended with %v", err)
			}
			tc.between(n)
			if err := pull(&fakeSource{fakeImage: img, host: "a"}); err != nil {
				t.Fatal(err)
			}
			n.wantContent(layer, "", tc.want)
			if labels := own(n.labels(appName)); (labels["unknown-sources"] == "") != (tc.want == "b,a") {
				t.Errorf("the record says %v", labels)
			}
		})
	}
}

// forgetful cannot say who serves some content.
type forgetful struct {
	*fakeSource
	content digest.Digest
}

func (s *forgetful) ServedBy(d digest.Digest) provenance.Provenance {
	if d == s.content {
		return provenance.Provenance{}
	}
	return s.fakeSource.ServedBy(d)
}

// Who has served the beginning of a layer is still known at its end if that is forgotten while the rest comes.
func TestSourcesThatAreForgottenInADownload(t *testing.T) {
	n, img := newNode(t, true), newImage("a layer that takes two attempts")
	s, layer := n.tracker.Load().contents, img.layers[0]
	s.add(n.ctx, layer.Digest, provenance.Provenance{Hosts: []string{"b"}})
	from := &fakeSource{fakeImage: img, host: "a"}
	tracked := &trackedFetcher{inner: from, source: &trackedSource{ImageFetcher: from, reporter: from, contents: s, delivered: &deliveries{}}}
	r, err := tracked.Fetch(n.ctx, layer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.(io.Seeker).Seek(5, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.pending.Purge()
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	if got := s.pendingOf(keyOf(n.ctx, layer.Digest)); !slices.Equal(got.Hosts, []string{"b", "a"}) || got.More > 0 {
		t.Errorf("the layer is of %v", got)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
