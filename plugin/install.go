// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/containerd/v2/plugins/services"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/config"
	"github.com/pullwarden/pullwarden/plugin/cri"
	"github.com/pullwarden/pullwarden/plugin/pull"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
)

// Type and ID name the plugin. Its configuration section is that of
// [config.Plugin].
const (
	Type plugin.Type = "io.containerd.image-policy.v1"
	ID   string      = "pullwarden"
)

// Install registers pullwarden and puts its decorators around five of
// containerd's built-ins: the local transfer service, its API, the service of image records, the snapshotters of
// containerd's own client, and the CRI service. Call it once in main, after the built-ins are imported and before
// containerd starts. Nothing changes until the configuration enables the
// plugin.
func Install() {
	section := config.DefaultSection()
	registrations := registry.Graph(nil)
	registry.Reset()
	for i := range registrations {
		r := &registrations[i]
		switch r.URI() {
		case string(plugins.TransferPlugin) + ".local":
			decorateTransfer(r)
		case string(plugins.GRPCPlugin) + ".transfer":
			decorateTransferAPI(r)
		case string(plugins.ServicePlugin) + "." + services.SnapshotsService:
			decorateSnapshotters(r)
		case string(plugins.ServicePlugin) + "." + services.ImagesService:
			decorateImages(r)
		case string(plugins.GRPCPlugin) + ".cri":
			decorateCRI(r)
		}
		registry.Register(r)
	}
	registry.Register(&plugin.Registration{
		Type: Type,
		ID:   ID,
		Requires: []plugin.Type{
			plugins.MetadataPlugin,
			plugins.LeasePlugin,
			plugins.ServicePlugin,
			plugins.SnapshotPlugin,
			plugins.ImageVerifierPlugin,
			plugins.MountManagerPlugin,
			plugins.TransferPlugin,
			plugins.CRIServicePlugin,
		},
		Config: &section,
		InitFn: start,
	})
	registry.Register(&plugin.Registration{Type: plugins.GRPCPlugin, ID: ID, Requires: []plugin.Type{Type}, InitFn: serve})
}

// decorateTransfer puts the service that carries out plans around the one that
// pulls. Without a plan it passes everything through.
func decorateTransfer(r *plugin.Registration) {
	inner := r.InitFn
	r.InitFn = func(ic *plugin.InitContext) (any, error) {
		instance, err := inner(ic)
		if err != nil {
			return instance, err
		}
		transferrer, ok := instance.(transfer.Transferrer)
		if !ok {
			// Not what we know: leave it, CRI's decorator is where we refuse.
			return instance, nil
		}
		return pwtransfer.Decorate(transferrer), nil
	}
}

// decorateSnapshotters lets CRI unpack an image for a container without labels that are not the image's to write.
func decorateSnapshotters(r *plugin.Registration) {
	inner := r.InitFn
	r.InitFn = func(ic *plugin.InitContext) (any, error) {
		instance, err := inner(ic)
		if all, ok := instance.(map[string]snapshots.Snapshotter); ok && err == nil {
			return pwtransfer.DecorateSnapshotters(all), nil
		}
		return instance, err // not what we know: it labels snapshots as ever
	}
}

// decorateImages lets containerd's own pulls leave who may have an image, and where it came from.
func decorateImages(r *plugin.Registration) {
	inner := r.InitFn
	r.InitFn = func(ic *plugin.InitContext) (any, error) {
		instance, err := inner(ic)
		if service, ok := instance.(imagesapi.ImagesClient); ok && err == nil {
			return pull.DecorateImages(service), nil
		}
		return instance, err // not what we know: pullwarden does not start then
	}
}

// decorateTransferAPI lets the transfer service see which hosts a client wants
// to be asked. Where containerd has another API than we know, only the sources
// of pulls that clients make are recorded less well.
func decorateTransferAPI(r *plugin.Registration) {
	inner := r.InitFn
	r.InitFn = func(ic *plugin.InitContext) (any, error) {
		instance, err := inner(ic)
		if err != nil {
			return instance, err
		}
		server, err := pwtransfer.DecorateServer(instance)
		if err != nil {
			prefixlog.G(ic.Context).WithError(err).Warn("hosts that clients of the transfer service configure are not known")
			return instance, nil
		}
		return server, nil
	}
}

// decorateCRI puts the policy before CRI's PullImage, and the state of images
// into its answers. Where pullwarden is enabled but cannot do its work, CRI does
// not start: a node must never pull without its rules.
func decorateCRI(r *plugin.Registration) {
	inner := r.InitFn
	r.Requires = append(r.Requires[:len(r.Requires):len(r.Requires)], Type)
	r.InitFn = func(ic *plugin.InitContext) (any, error) {
		instance, err := ic.GetByID(Type, ID)
		switch {
		case plugin.IsSkipPlugin(err), errors.Is(err, plugin.ErrPluginNotFound):
			return inner(ic)
		case err != nil:
			return nil, fmt.Errorf("CRI does not start without pullwarden: %w", err)
		}
		p, ok := instance.(*imagePolicy)
		if !ok {
			return nil, fmt.Errorf("CRI does not start: plugin %s.%s is a %T", Type, ID, instance)
		}
		service, err := inner(ic)
		if err != nil {
			return service, err
		}
		err = cri.Wrap(service, func(runtimes runtime.RuntimeServiceServer, images runtime.ImageServiceServer) (runtime.RuntimeServiceServer, runtime.ImageServiceServer) {
			starts := p.starts(runtimes)
			service := cri.NewImageService(images, runtimes, p.engine, p.store, p.cri, p.key, p.puller).WithStarts(starts)
			p.images.Store(service)
			pods := cri.NewRuntimeService(runtimes, images, p.store, p.sandboxImage()).WithStarts(starts)
			pods.Started = p.started
			pods.Unpacker = p.puller
			pods.RefuseRestored = p.puller.RestoresCheckpoints()
			return pods, service
		})
		if err != nil {
			return nil, fmt.Errorf("CRI does not start: pullwarden does not know the CRI service of containerd %s: %w", version.Version, err)
		}
		return service, nil
	}
}
