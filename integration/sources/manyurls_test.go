// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// longURLs are as many urls as count beside that which serves the layer, of hosts with long names.
func longURLs() (urls []string) {
	for i := range 15 {
		urls = append(urls, fmt.Sprintf("http://host-%03d.%stest/layer", i, strings.Repeat(strings.Repeat("x", 55)+".", 5)))
	}
	return urls
}

// TestMoreSourcesThanALabelHolds has an image whose layer names as many hosts as count,
// with names so long that no label has room for them. Its pull succeeds; the record says
// how many hosts it lacks; and no list of sources lets it be reused.
func TestMoreSourcesThanALabelHolds(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	ref := nodetest.Named("app:1")
	f := newForeign(t, 5, longURLs()...)
	a.both("app:1", f)
	a.MustPull(ref)
	got := a.Labels(ref)
	list := got["content-sources"]
	nodetest.Want(t, "the registry is the first", strings.HasPrefix(list, a.mirror.Host()+","+f.host+",host-000."), true)
	nodetest.Want(t, "the list says what it lacks: "+list[strings.LastIndex(list, ","):], strings.HasSuffix(list, " more"), true)
	nodetest.Want(t, "unknown-sources", got["unknown-sources"], "true")
	a.wantSources("CRI shows the same", ref, a.mirror.Host()+"/app:1", list)
	nodetest.Want(t, "so do its lists", a.List()[0].GetSpec().GetAnnotations()["pullwarden.io/content-sources"], list)

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

// TestSourcesInRecordsAndEvents has an image whose layer names many hosts with long names. The
// records of its tags stay so small that containerd lists those of thousands of tags in one
// message, of 16 MiB, to all of its clients; and so do its events of them, which it logs at level
// info.
func TestSourcesInRecordsAndEvents(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, func(o *node.Options) { o.LogLevel = "info" })
	ref := nodetest.Named("app:1")
	n.Push("app:1", newForeign(t, 5, longURLs()...))
	mark := n.Mark()
	for range 2 { // the second one checks
		n.MustPull(ref)
		n.WaitForWrites(ref)
	}
	text, err := n.Log(mark)
	n.Must(err)
	size := 0
	for key, value := range n.Labels(ref) {
		size += len(key) + len(value)
	}
	nodetest.Want(t, "there are sources", strings.Contains(n.Labels(ref)["content-sources"], "host-000."), true)
	if size > 1500 {
		t.Errorf("the labels of a record have %d bytes", size)
	}
	for line := range strings.Lines(text) {
		if len(line) > 2000 {
			t.Errorf("the log has a line of %d bytes: %.200s", len(line), line)
		}
	}
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
		img = nodetest.WithLayerAt(t, img, l, urls...)
	}
	n.Push("app:1", img)
	mark := n.Mark()
	n.MustPull(nodetest.Named("app:1"))
	text, err := n.Log(mark)
	n.Must(err)
	nodetest.Want(t, "lines with a url", strings.Count(text, empty.URL+"/"), 0)
	nodetest.Want(t, fmt.Sprintf("no more than a few of the log's %d bytes", len(text)), len(text) < 20_000, true)
}
