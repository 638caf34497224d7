// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMoreSourcesThanALabelHolds has an image whose layer names as many hosts as count,
// with names so long that no label has room for them. Its pull succeeds; the record says
// how many hosts it lacks; and no list of sources lets it be reused.
func TestMoreSourcesThanALabelHolds(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	ref := nodetest.Named("app:1")
	var urls []string
	for i := range 15 { // with that which serves the layer as many as count of one
		urls = append(urls, fmt.Sprintf("http://host-%03d.%stest/layer", i, strings.Repeat(strings.Repeat("x", 55)+".", 5)))
	}
	f := newForeign(t, 5, urls...)
	a.both("app:1", f)
	a.MustPull(ref)
	got := a.Labels(ref)
	list := got["content-sources"]
	nodetest.Want(t, "the registry is the first", strings.HasPrefix(list, a.mirror.Host()+","+f.host+",host-000."), true)
	nodetest.Want(t, "the list says what it lacks: "+list[strings.LastIndex(list, ","):], strings.HasSuffix(list, " more"), true)
	nodetest.Want(t, "unknown-sources", got["unknown-sources"], "true")
	a.wantSources("CRI shows the same", ref, a.mirror.Host()+"/app:1", list)
	listed := a.List()[0].GetSpec().GetAnnotations()["pullwarden.io/content-sources"]
	begin, end, _ := strings.Cut(listed, ",+")
	if len(listed) > 512 || !strings.HasPrefix(list, begin+",") || !strings.HasSuffix(end, " more") {
		t.Errorf("in the list of images, the sources are %q", listed)
	}

	a.allow(a.mirror.Host(), a.Registry.Host(), f.host, "host-*.test", "*")
	a.mirror.Refuse()
	a.Registry.Refuse()
	outcome, _ := a.outcome(node.Hint("policy", "Never"))
	nodetest.Want(t, "outcome where every host of the list is allowed", outcome, "Failed")
	a.Must(a.mirror.Restore())
	outcome, reason := a.outcome(node.Hint("policy", "IfNotPresent"))
	nodetest.Want(t, "outcome", outcome+" "+reason, "Pulled source")
	nodetest.Eventually(t, "the mirror is the source", func() bool { return a.Labels(ref)["content-sources"] == "" })
}

// TestLogOfManyURLs has an image of many layers that name many long urls, none of which has
// anything. Its pull succeeds, and writes nothing of them to the log at level info.
func TestLogOfManyURLs(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, func(o *node.Options) { o.LogLevel = "info" })
	empty := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(empty.Close)
	layers, err := resolvertest.Image(7, 30, 100).Layers()
	n.Must(err)
	img := nodetest.Image(1)
	for i, l := range layers {
		var urls []string
		for j := range 16 {
			urls = append(urls, fmt.Sprintf("%s/%d/%d/%s", empty.URL, i, j, strings.Repeat("x", 400)))
		}
		img, err = mutate.Append(img, mutate.Addendum{Layer: l, MediaType: types.OCILayer, URLs: urls})
		n.Must(err)
	}
	n.Push("app:1", img)
	mark := n.Mark()
	n.MustPull(nodetest.Named("app:1"))
	text, err := n.Log(mark)
	n.Must(err)
	nodetest.Want(t, "lines with a url", strings.Count(text, empty.URL+"/"), 0)
	nodetest.Want(t, fmt.Sprintf("no more than a few of the log's %d bytes", len(text)), len(text) < 20_000, true)
}
