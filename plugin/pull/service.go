// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/containerd/v2/core/unpack"
	"github.com/containerd/errdefs"
	"github.com/containerd/imgcrypt/v2"
	"github.com/containerd/imgcrypt/v2/images/encryption"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/isolation"
)

// remoteAnnotations is the export of a snapshotter's plugin that lets the
// transfer service annotate layers for it.
const remoteAnnotations = "enable_remote_snapshot_annotations"

// NewService returns the transfer service that pulls are made with. Where CRI
// pulls by the node's own transfer service, it does what that one does, and unpacks
// by the snapshotters of all runtime handlers. Where CRI pulls without it, it does with
// CRI's settings what CRI does with them, and only pulls: other transfers are
// errdefs.ErrNotImplemented. The error says that the node's own is none that we know.
func NewService(node Node, settings Settings, own transfer.Transferrer) (transfer.Transferrer, error) {
	if settings.Local {
		return &service{inner: isolated(node, settings, localConfig(node, settings)), settings: settings}, nil
	}
	config, err := isolation.ConfigOf(own)
	if err != nil {
		return nil, err
	}
	config.UnpackPlatforms = withUsed(config.UnpackPlatforms, node, settings)
	return isolated(node, settings, config), nil
}

// isolated returns a transfer service whose pulls do not wait for, or build upon,
// what a pull from another source has begun.
func isolated(node Node, settings Settings, config local.TransferConfig) *isolation.Service {
	return isolation.NewService(isolation.Config{
		Contents: node.Contents, Images: node.Images, Transfer: config, Patience: settings.ProgressTimeout,
	})
}

// localConfig configures a transfer service as CRI is.
func localConfig(node Node, settings Settings) local.TransferConfig {
	return local.TransferConfig{
		Leases:                     node.Leases,
		MaxConcurrentDownloads:     settings.MaxConcurrentDownloads,
		ConcurrentLayerFetchBuffer: settings.LayerFetchBuffer,
		UnpackPlatforms:            unpackPlatforms(node, settings),
		Verifiers:                  node.Verifiers,
	}
}

// service is a transfer service that pulls as CRI does by itself.
type service struct {
	inner    transfer.Transferrer
	settings Settings
}

// Transfer pulls from the source into the destination.
func (s *service) Transfer(ctx context.Context, source, to any, opts ...transfer.Opt) error {
	from, ok := source.(transfer.ImageFetcher)
	if !ok {
		return fmt.Errorf("pull from a %T: %w", source, errdefs.ErrNotImplemented)
	}
	store, ok := to.(imageStorer)
	if !ok {
		return fmt.Errorf("pull to a %T: %w", to, errdefs.ErrNotImplemented)
	}
	return s.inner.Transfer(ctx, from, &destination{imageStorer: store, discard: s.settings.DiscardLayers}, opts...)
}

// withUsed returns what a transfer service is configured to unpack by, as it is, and those snapshotters that pulls are
// for and that it lacks: by default it has overlayfs and erofs alone. Nobody has to write an unpack_config for
// the snapshotter of a runtime handler: stock containerd pulls by the default one, and unpacks by that one as
// the container is made, with the differs of the diff service.
func withUsed(configured []unpack.Platform, node Node, settings Settings) []unpack.Platform {
	all, pulled := slices.Clone(configured), platforms.DefaultSpec()
	for _, name := range settings.used() {
		snapshotter := node.Snapshotters[name]
		there := slices.ContainsFunc(configured, func(p unpack.Platform) bool {
			return p.SnapshotterKey == name && p.Platform.Match(pulled)
		})
		if snapshotter == nil || there {
			continue // a pull for one that is not loaded says so
		}
		all = append(all, unpack.Platform{
			Platform:                platforms.OnlyOS(pulled), // as without check_platform_supported
			SnapshotterKey:          name,
			Snapshotter:             snapshotter,
			SnapshotterExports:      node.Exports[name],
			SnapshotterCapabilities: node.Capabilities[name],
			Applier:                 node.Applier,
		})
	}
	return all
}

// unpackPlatforms lets every snapshotter of the node unpack images of every
// platform. CRI's own pull restricts neither.
func unpackPlatforms(node Node, settings Settings) []unpack.Platform {
	var all []unpack.Platform
	for name, snapshotter := range node.Snapshotters {
		exports := maps.Clone(node.Exports[name])
		if exports == nil {
			exports = map[string]string{}
		}
		exports[remoteAnnotations] = fmt.Sprint(settings.SnapshotAnnotations)
		all = append(all, unpack.Platform{
			Platform:           platforms.All,
			SnapshotterKey:     name,
			Snapshotter:        snapshotter,
			SnapshotterExports: exports,
			Applier:            node.Applier,
			ApplyOpts:          applyOpts(settings),
		})
	}
	return all
}

// applyOpts returns a slice without spare capacity: each transfer appends an
// option of its own.
func applyOpts(settings Settings) []diff.ApplyOpt {
	opts := []diff.ApplyOpt{diff.WithSyncFs(settings.SyncFS)}
	if settings.DecryptOnNode {
		opts = append(opts, decrypt)
	}
	return opts[:len(opts):len(opts)]
}

// decrypt hands an empty payload to the stream processors that decrypt layers,
// which makes them use the keys on the node.
func decrypt(ctx context.Context, layer ocispec.Descriptor, config *diff.ApplyConfig) error {
	// A payload of its own for each layer: imgcrypt writes the descriptor into it.
	return encryption.WithDecryptedUnpack(&imgcrypt.Payload{})(ctx, layer, config)
}
