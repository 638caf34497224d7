// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const changed = `default_policy = "IfDigestChanged"`

// TestFallback follows an image through an outage: marks, warning, recovery.
func TestFallback(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(changed, `verify_timeout = "500ms"`))
	dgst := n.push("app:1", image(1))
	ref, canonical := named("app:1"), named("app@"+dgst.String())
	id := n.mustPull(ref)

	before := time.Now().Add(-time.Second)
	n.r.Refuse()
	mark := n.mark()
	want(t, "image ID", n.mustPull(ref), id)
	got := n.decision(mark, ref)
	want(t, "level", got.level, "warning")
	want(t, "class", got.class, "unreachable")
	if age, ok := got.entry["last_checked"].(string); !ok || age == "" {
		t.Error("the warning does not tell the age")
	}
	eventually(t, "the record is marked", func() bool { return n.labels(ref)["stale-since"] != "" })
	labels := n.labels(ref)
	want(t, "stale-reason", labels["stale-reason"], "unreachable")
	since, err := time.Parse(time.RFC3339, labels["stale-since"])
	if err != nil || since.Before(before.Truncate(time.Second)) || since.After(time.Now().Add(time.Second)) || since.Location() != time.UTC {
		t.Errorf("stale-since is %s, want the time of the fallback in UTC (%v)", labels["stale-since"], err)
	}
	want(t, "verified-digest", labels["verified-digest"], dgst.String())
	eventually(t, "the record by digest is marked", func() bool { return n.labels(canonical)["stale-reason"] != "" })
	isRunnable(n.daemon, ref)

	n.restore()
	n.r.Status(resolvertest.All, 503)
	n.mustPull(ref)
	eventually(t, "the reason is the newest", func() bool { return n.labels(ref)["stale-reason"] == "unavailable" })
	want(t, "stale-since", n.labels(ref)["stale-since"], labels["stale-since"])

	// A registry that has failed for some time is left alone for a while.
	n.restore()
	eventually(t, "the registry is asked again", func() bool {
		mark := n.mark()
		n.mustPull(ref)
		return n.decision(mark, ref).outcome == "Unchanged"
	})
	for _, name := range []string{ref, canonical} {
		eventually(t, "the marks are gone from "+name, func() bool {
			l := n.labels(name)
			return l["stale-since"] == "" && l["stale-reason"] == ""
		})
	}
}

// TestMaxStale holds that a fallback is only as old as max_stale says, since
// the last check and not since the pull.
func TestMaxStale(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(changed, `verify_timeout = "300ms"`, `max_stale = "1h"`))
	dgst := n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)
	n.r.Refuse()
	verified := func(age time.Duration) map[string]string {
		return map[string]string{"verified-at": time.Now().Add(-age).UTC().Format(time.RFC3339Nano)}
	}
	tests := []struct {
		name   string
		labels map[string]string
		opts   []pullOption
		works  bool
	}{
		{"young enough", verified(50 * time.Minute), nil, true},
		{"too old", verified(70 * time.Minute), nil, false},
		{"a hint shortens it", verified(50 * time.Minute), []pullOption{hint("max-stale", "40m")}, false},
		{"no bound", verified(70 * time.Minute), []pullOption{hint("max-stale", "0s")}, true},
		{"from the future", verified(-2 * time.Hour), nil, false},
		{"not a time", map[string]string{"verified-at": "yesterday"}, nil, false},
		{"of another digest", map[string]string{
			"verified-at": verified(0)["verified-at"], "verified-digest": "sha256:" + dgst.Encoded()[:62] + "00",
		}, nil, false},
		{"never checked", map[string]string{"verified-at": "", "verified-digest": ""}, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n.setLabels(ref, tt.labels)
			_, err := n.pull(ref, tt.opts...)
			want(t, "fallback works", err == nil, tt.works)
			if err != nil {
				wantWords(t, err, "max_stale", "unreachable", n.r.Host())
				want(t, "RegistryUnavailable", registryUnavailable(err), true)
			}
		})
	}
}

// TestFallbackCanRun holds that an image of which neither content nor snapshot
// is there is no fallback.
func TestFallbackCanRun(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(changed, `verify_timeout = "300ms"`))
	n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)

	// The layers and the snapshots go, the manifest stays, as after a mishap.
	ctx := t.Context()
	img, err := n.client.GetImage(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.breakImage(img); err != nil {
		t.Fatal(err)
	}
	n.r.Refuse()
	_ = n.mustFail(ref, []string{n.r.Host(), "unreachable"})

	n.restore()
	mark := n.mark()
	n.mustPull(ref)
	got := n.decision(mark, ref)
	want(t, "outcome", got.outcome, "Pulled")
	want(t, "reason", got.reason, "incomplete")
	isRunnable(n.daemon, ref)
}

// breakImage removes an image's layers and snapshots behind containerd's back.
func (n *node) breakImage(img client.Image) error {
	ctx := n.t.Context()
	chain, err := img.RootFS(ctx)
	if err != nil {
		return err
	}
	layers, err := n.layers(img)
	if err != nil {
		return err
	}
	sn := n.client.SnapshotService("overlayfs")
	for i := len(chain); i > 0; i-- {
		if err := sn.Remove(ctx, identity.ChainID(chain[:i]).String()); err != nil {
			return err
		}
	}
	for _, layer := range layers {
		if err := n.client.ContentStore().Delete(ctx, layer); err != nil {
			return err
		}
	}
	return n.collectGarbage()
}

// layers returns the digests of an image's layers.
func (n *node) layers(img client.Image) ([]digest.Digest, error) {
	manifest, err := images.Manifest(n.t.Context(), n.client.ContentStore(), img.Target(), platforms.Default())
	if err != nil {
		return nil, err
	}
	var layers []digest.Digest
	for _, l := range manifest.Layers {
		layers = append(layers, l.Digest)
	}
	return layers, nil
}

// collectGarbage waits for a collection.
func (n *node) collectGarbage() error {
	ctx := n.t.Context()
	lease, err := n.client.LeasesService().Create(ctx, leases.WithRandomID())
	if err != nil {
		return err
	}
	return n.client.LeasesService().Delete(ctx, lease, leases.SynchronousDelete)
}

// TestHangingRegistry holds that verify_timeout bounds the whole check.
func TestHangingRegistry(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(changed, `verify_timeout = "1s"`))
	n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)
	troubles := map[string]func() error{
		"hangs":    func() error { n.r.Hang(resolvertest.All); return nil },
		"swallows": func() error { return n.r.Swallow() },
	}
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			if err := trouble(); err != nil {
				t.Fatal(err)
			}
			defer n.restore()
			for _, policy := range []string{"IfDigestChanged", "Always"} {
				n.hostsTOML("registry.test", n.server(n.r)+"# "+name+policy) // no trouble before counts
				began := time.Now()
				mark := n.mark()
				_, err := n.pull(ref, hint("policy", policy))
				took := time.Since(began)
				want(t, policy+" fails", err != nil, policy == "Always")
				want(t, policy+": class", n.decision(mark, ref).class, "unreachable")
				if took < 500*time.Millisecond || took > 3*time.Second {
					t.Errorf("%s took %v, want about 1s", policy, took)
				}
			}
		})
	}
}
