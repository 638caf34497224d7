// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
	"github.com/pullwarden/pullwarden/store"
)

func TestPullMakesTheNamesOfCRI(t *testing.T) {
	n := newNode(t)
	img := resolvertest.Image(1, 2, 100)
	ref, target := n.push("app:1", img)
	s := settings()
	s.PinnedImages = []string{ref}
	id := n.pull(s, ref, "")

	config, err := img.ConfigName()
	check(t, err)
	if id != config.String() {
		t.Errorf("image ID %s, want %s", id, config)
	}
	canonical := n.registry.Host() + "/app@" + target.String()
	equal(t, "what CRI was told", n.index.told, []string{id, ref, canonical})
	for _, name := range []string{id, ref, canonical} {
		record, err := n.Images.Get(n.ctx, name)
		check(t, err)
		if record.Target.Digest != target {
			t.Errorf("%s is %s", name, record.Target.Digest)
		}
		if record.Labels[labels.CRIManaged] != labels.CRIManagedValue || record.Labels[labels.CRIPinned] != labels.CRIPinnedValue {
			t.Errorf("%s has labels %v", name, record.Labels)
		}
		// What was verified is said of references, in one step with the target.
		verified := target.String()
		if name == id {
			verified = ""
		}
		if got := record.Labels[store.LabelVerifiedDigest]; got != verified {
			t.Errorf("%s: verified digest %q, want %q", name, got, verified)
		}
	}
}

func TestPullByDigest(t *testing.T) {
	n := newNode(t)
	_, target := n.push("app:1", resolvertest.Image(1, 1, 100))
	ref := n.registry.Host() + "/app@" + target.String()
	id := n.pull(settings(), ref, "")
	equal(t, "what CRI was told", n.index.told, []string{id, ref})
}

// A tag that moves takes its record along, and labels of others stay.
func TestPullMovesTheTag(t *testing.T) {
	n := newNode(t)
	ref, first := n.push("app:1", resolvertest.Image(1, 1, 100))
	id := n.pull(settings(), ref, "")
	record, err := n.Images.Get(n.ctx, id)
	check(t, err)
	record.Labels["other.example/label"] = "kept"
	_, err = n.Images.Update(n.ctx, record)
	check(t, err)

	_, second := n.push("app:1", resolvertest.Image(2, 1, 100))
	newID := n.pull(settings(), ref, "")
	if newID == id || first == second {
		t.Fatal("the image is the same")
	}
	record, err = n.Images.Get(n.ctx, ref)
	check(t, err)
	if record.Target.Digest != second {
		t.Errorf("the tag is %s, want %s", record.Target.Digest, second)
	}
	// The same image once more changes nothing of the old records.
	check(t, n.registry.Tag(n.ctx, "app", "1", first))
	if again := n.pull(settings(), ref, ""); again != id {
		t.Errorf("image ID %s, want %s", again, id)
	}
	record, err = n.Images.Get(n.ctx, id)
	check(t, err)
	if record.Labels["other.example/label"] != "kept" {
		t.Errorf("labels %v", record.Labels)
	}
}

func TestChanges(t *testing.T) {
	a, b := digest.FromString("a"), digest.FromString("b")
	record := func(d digest.Digest, marks ...string) images.Image {
		img := images.Image{Target: ocispec.Descriptor{Digest: d}, Labels: map[string]string{}}
		for i := 0; i < len(marks); i += 2 {
			img.Labels[marks[i]] = marks[i+1]
		}
		return img
	}
	for name, tc := range map[string]struct {
		old, record images.Image
		want        []string
	}{
		"same":      {record(a, labels.CRIManaged, labels.CRIManagedValue), record(a, labels.CRIManaged, labels.CRIManagedValue), nil},
		"moved":     {record(a, labels.CRIManaged, labels.CRIManagedValue), record(b, labels.CRIManaged, labels.CRIManagedValue), []string{"target"}},
		"unmanaged": {record(a), record(a, labels.CRIManaged, labels.CRIManagedValue), []string{"labels." + labels.CRIManaged, "target"}},
		"pinned":    {record(a, labels.CRIManaged, labels.CRIManagedValue), record(a, labels.CRIManaged, labels.CRIManagedValue, labels.CRIPinned, labels.CRIPinnedValue), []string{"labels." + labels.CRIPinned, "target"}},
		"keeps pin": {record(a, labels.CRIManaged, labels.CRIManagedValue, labels.CRIPinned, labels.CRIPinnedValue), record(a, labels.CRIManaged, labels.CRIManagedValue), nil},
	} {
		equal(t, name, changes(tc.old, tc.record), tc.want)
	}
}

// Without CRI's index knowing the image, the kubelet would not find it.
func TestPullFailsWithTheIndex(t *testing.T) {
	n := newNode(t)
	ref, _ := n.push("app:1", resolvertest.Image(1, 1, 100))
	n.index.refuse = ref
	_, err := n.puller(settings()).Pull(n.ctx, n.plan(ref), "")
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Error(err)
	}
}

func TestPullFails(t *testing.T) {
	n := newNode(t)
	ref, target := n.push("app:1", resolvertest.Image(1, 1, 100))
	refused := errors.New("refused")
	for name, change := range map[string]func(*pwtransfer.Plan) (snapshotter string){
		"refused": func(p *pwtransfer.Plan) string {
			p.Verify = func(context.Context, ocispec.Descriptor) error { return refused }
			return ""
		},
		"no snapshotter": func(*pwtransfer.Plan) string { return "unheard-of" },
		"no reference": func(p *pwtransfer.Plan) string {
			p.Reference = "A:B:C"
			return ""
		},
		"gone": func(p *pwtransfer.Plan) string {
			p.Source = n.plan(n.registry.Host() + "/gone:1").Source
			return ""
		},
	} {
		plan := n.plan(ref)
		id, err := n.puller(settings()).Pull(n.ctx, plan, change(plan))
		if err == nil || id != "" {
			t.Errorf("%s: %q, %v", name, id, err)
		}
		if name == "refused" && !errors.Is(err, refused) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "no snapshotter" && !strings.Contains(err.Error(), `snapshotter "unheard-of" is not loaded`) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := n.Images.Get(n.ctx, ref); !errdefs.IsNotFound(err) {
			t.Errorf("%s: there is a record: %v", name, err)
		}
	}
	equal(t, "what CRI was told", n.index.told, nil)
	n.collect()
	if n.has(target) {
		t.Error("the content of a pull that failed is kept")
	}
}

// A download that stands still is given up, and the error says that it was
// interrupted: the caller's context is alive.
func TestPullWithoutProgress(t *testing.T) {
	n := newNode(t)
	ref, _ := n.push("app:1", resolvertest.Image(1, 1, 100))
	s := settings()
	s.ProgressTimeout = 20 * time.Millisecond
	p := n.puller(s)
	plan := n.plan(ref)
	p.service = pwtransfer.Decorate(stalled{})
	_, err := p.Pull(n.ctx, plan, "")
	if !errors.Is(err, context.Canceled) || n.ctx.Err() != nil {
		t.Error(err)
	}
}

// stalled is a transfer service that gets one byte of two and then nothing.
type stalled struct{}

// Transfer waits for the end of its context.
func (stalled) Transfer(ctx context.Context, _, _ any, opts ...transfer.Opt) error {
	var config transfer.Config
	for _, opt := range opts {
		opt(&config)
	}
	config.Progress(transfer.Progress{Event: "downloading", Name: "layer", Progress: 1, Total: 2, Desc: &ocispec.Descriptor{}})
	<-ctx.Done()
	return ctx.Err()
}

// A service that does something else than the plan is never believed.
func TestPullThatStoredNothing(t *testing.T) {
	n := newNode(t)
	p := n.puller(settings())
	p.service = pwtransfer.Decorate(idle{})
	_, err := p.Pull(n.ctx, n.plan(n.registry.Host()+"/app:1"), "")
	if err == nil || !strings.Contains(err.Error(), "did not carry out the plan") {
		t.Error(err)
	}
}

type idle struct{}

// Transfer does nothing.
func (idle) Transfer(context.Context, any, any, ...transfer.Opt) error { return nil }

func TestNew(t *testing.T) {
	n := newNode(t)
	full := Config{Settings: settings(), Node: n.Node, Service: pwtransfer.Decorate(idle{}), Index: n.index}
	if _, err := New(full); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"snapshotter": func(c *Config) { c.Settings.Snapshotter = "" },
		"contents":    func(c *Config) { c.Node.Contents = nil },
		"images":      func(c *Config) { c.Node.Images = nil },
		"service":     func(c *Config) { c.Service = nil },
		"index":       func(c *Config) { c.Index = nil },
	} {
		c := full
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("no error without %s", name)
		}
	}
}
