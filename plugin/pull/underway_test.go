// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"math"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// reporter has everything from one host.
type reporter struct{}

func (reporter) Hosts() []string { return []string{"other.test", "mirror.test"} }

func (reporter) ServedBy(digest.Digest) provenance.Provenance {
	return provenance.Provenance{Hosts: []string{"mirror.test"}}
}

// A pull is listed with what has come, each byte once, until it has ended.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	p := &Puller{}
	w := newWatch("registry.test/app:1", nil)
	remove := p.underWay.add(w, reporter{})
	for _, e := range []struct {
		event, name  string
		bytes, total int64
	}{
		{"waiting", "here", 0, 7}, {"complete", "here", 7, 7}, // was there before
		{"downloading", "one", 10, 100}, {"downloading", "two", 5, 50},
		{"downloading", "one", 100, 100}, {"complete", "one", 100, 100}, {"complete", "one", 100, 100},
	} {
		w.progress(transfer.Progress{
			Event: e.event, Name: e.name, Progress: e.bytes, Total: e.total,
			Desc: &ocispec.Descriptor{Digest: digest.FromString(e.name)},
		})
	}
	got := p.UnderWay()
	if len(got) != 1 || time.Since(got[0].Began) > time.Minute {
		t.Fatalf("under way: %v", got)
	}
	want := UnderWay{Reference: "registry.test/app:1", Began: got[0].Began, Hosts: []string{"mirror.test"}, Bytes: 105, Total: 150}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	if remove(); len(p.UnderWay()) > 0 {
		t.Errorf("it has ended: %v", p.UnderWay())
	}
}

// The sizes are a manifest's, which may say anything.
func TestUnderWayOfHostileSizes(t *testing.T) {
	t.Parallel()
	w := newWatch("evil.test/app:1", nil)
	for _, name := range []string{"one", "two", "three"} {
		total := int64(math.MaxInt64)
		if name == "three" {
			total = -5
		}
		w.progress(transfer.Progress{
			Event: "downloading", Name: name, Progress: 1, Total: total, Desc: &ocispec.Descriptor{Digest: digest.FromString(name)},
		})
	}
	if got := w.underWay(running{}); got.Bytes != 3 || got.Total != maxTotal {
		t.Errorf("%d bytes of %d", got.Bytes, got.Total)
	}
}
