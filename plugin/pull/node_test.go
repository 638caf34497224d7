// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"strings"
	"testing"

	diffapi "github.com/containerd/containerd/api/services/diff/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/pkg/imageverifier"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/containerd/v2/plugins/services"
	"github.com/containerd/plugin"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc"
)

// initContext is that of a plugin after all others; the instances are by type
// and ID, joined by a point.
func initContext(t *testing.T, instances map[string]any, exports map[string]string) *plugin.InitContext {
	t.Helper()
	set := plugin.NewPluginSet()
	for uri, instance := range instances {
		dot := strings.LastIndex(uri, ".")
		r := plugin.Registration{Type: plugin.Type(uri[:dot]), ID: uri[dot+1:], InitFn: func(ic *plugin.InitContext) (any, error) {
			ic.Meta.Exports, ic.Meta.Capabilities = exports, []string{"of " + uri}
			return instance, nil
		}}
		check(t, set.Add(r.Init(plugin.NewContext(t.Context(), set, nil))))
	}
	return plugin.NewContext(t.Context(), set, nil)
}

const (
	metadataURI = string(plugins.MetadataPlugin) + ".bolt"
	leaseURI    = string(plugins.LeasePlugin) + ".manager"
	diffURI     = string(plugins.ServicePlugin) + "." + services.DiffService
	snapshotURI = string(plugins.SnapshotPlugin) + ".native"
	verifierURI = string(plugins.ImageVerifierPlugin) + ".bindir"
	mountsURI   = string(plugins.MountManagerPlugin) + ".bolt"
	imagesURI   = string(plugins.CRIServicePlugin) + ".images"
)

func TestNodeOf(t *testing.T) {
	n := newNode(t)
	all := func() map[string]any {
		return map[string]any{
			metadataURI: n.db, leaseURI: n.Leases, diffURI: differ{}, snapshotURI: n.Snapshotters["native"], verifierURI: verifier{}, mountsURI: &activated{},
		}
	}
	got, err := NodeOf(initContext(t, all(), map[string]string{"address": "/run/s.sock"}))
	check(t, err)
	if got.Contents == nil || got.Images == nil || got.Leases == nil || len(got.Snapshotters) != 2 || got.Verifiers["bindir"] == nil || got.Mounts == nil {
		t.Errorf("%+v", got)
	}
	if got.Exports["native"]["address"] != "/run/s.sock" || got.Exports["second"] != nil {
		t.Errorf("exports %v", got.Exports)
	}
	equal(t, "capabilities", got.Capabilities["native"], []string{"of " + snapshotURI})
	equal(t, "capabilities of no plugin", got.Capabilities["second"], nil)
	layer := digest.FromString("layer")
	if applied, err := got.Applier.Apply(t.Context(), ocispec.Descriptor{Digest: layer}, nil); err != nil || applied.Digest != layer {
		t.Errorf("the diff service is not asked: %v, %v", applied, err)
	}

	without := all()
	delete(without, verifierURI)
	delete(without, mountsURI)
	if got, err := NodeOf(initContext(t, without, nil)); err != nil || got.Verifiers != nil || got.Mounts != nil {
		t.Errorf("without verifiers and mount manager: %v, %v, %v", got.Verifiers, got.Mounts, err)
	}
	for _, uri := range []string{metadataURI, leaseURI, diffURI, verifierURI, mountsURI} {
		strange := all()
		strange[uri] = "strange"
		if _, err := NodeOf(initContext(t, strange, nil)); err == nil || !strings.Contains(err.Error(), "is a string") {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for _, uri := range []string{metadataURI, leaseURI, diffURI} {
		without := all()
		delete(without, uri)
		if _, err := NodeOf(initContext(t, without, nil)); err == nil {
			t.Errorf("no error without %s", uri)
		}
	}
}

func TestIndex(t *testing.T) {
	if got, err := Index(initContext(t, map[string]any{imagesURI: &index{}}, nil)); err != nil || got == nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, instances := range []map[string]any{{}, {imagesURI: "strange"}} {
		if _, err := Index(initContext(t, instances, nil)); err == nil {
			t.Errorf("no error with %v", instances)
		}
	}
}

// differ is a diff service that applies nothing.
type differ struct{ diffapi.DiffClient }

// Apply answers the layer itself.
func (differ) Apply(_ context.Context, r *diffapi.ApplyRequest, _ ...grpc.CallOption) (*diffapi.ApplyResponse, error) {
	return &diffapi.ApplyResponse{Applied: &types.Descriptor{Digest: r.GetDiff().GetDigest()}}, nil
}

// verifier allows everything.
type verifier struct{}

// VerifyImage allows the image.
func (verifier) VerifyImage(context.Context, string, ocispec.Descriptor) (*imageverifier.Judgement, error) {
	return &imageverifier.Judgement{OK: true}, nil
}
