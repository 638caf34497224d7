// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"errors"
	"fmt"

	diffapi "github.com/containerd/containerd/api/services/diff/v1"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/diff/proxy"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/imageverifier"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/containerd/v2/plugins/services"
	"github.com/containerd/plugin"
)

// Node is the part of containerd that a transfer service is made of.
type Node struct {
	Contents     content.Store
	Images       images.Store
	Containers   containers.Store
	Leases       leases.Manager
	Snapshotters map[string]snapshots.Snapshotter
	// Exports are what the plugins of the snapshotters export, by the name of
	// the snapshotter.
	Exports map[string]map[string]string
	// Capabilities are what these plugins say that they can do, by the name of the
	// snapshotter.
	Capabilities map[string][]string
	// Applier unpacks layers. It is the one of containerd's diff service, which
	// CRI uses when it pulls by itself.
	Applier diff.Applier
	// Verifiers are the node's image verifiers, by name; none = nil.
	Verifiers map[string]imageverifier.ImageVerifier
	// Mounts activates the mounts of those snapshots that the system cannot mount as they are; nil where nobody does.
	Mounts mount.Manager
}

// NodeOf collects the parts from containerd's plugins. The caller's plugin must
// require the metadata, lease, snapshot, service, image verifier and mount manager plugins.
func NodeOf(ic *plugin.InitContext) (Node, error) {
	db, err := single[*metadata.DB](ic, plugins.MetadataPlugin)
	if err != nil {
		return Node{}, err
	}
	manager, err := single[leases.Manager](ic, plugins.LeasePlugin)
	if err != nil {
		return Node{}, err
	}
	applier, err := diffService(ic)
	if err != nil {
		return Node{}, err
	}
	verifiers, err := imageVerifiers(ic)
	if err != nil {
		return Node{}, err
	}
	mounts, err := single[mount.Manager](ic, plugins.MountManagerPlugin)
	if err != nil && !errors.Is(err, plugin.ErrPluginNotFound) {
		return Node{}, err
	}
	node := Node{
		Contents:     db.ContentStore(),
		Images:       metadata.NewImageStore(db),
		Containers:   metadata.NewContainerStore(db),
		Leases:       manager,
		Snapshotters: db.Snapshotters(),
		Exports:      map[string]map[string]string{},
		Capabilities: map[string][]string{},
		Applier:      applier,
		Verifiers:    verifiers,
		Mounts:       mounts,
	}
	for name := range node.Snapshotters {
		if p := ic.Plugins().Get(plugins.SnapshotPlugin, name); p != nil {
			node.Exports[name], node.Capabilities[name] = p.Meta.Exports, p.Meta.Capabilities
		}
	}
	return node, nil
}

// Index returns CRI's index of images, which CRI's image plugin keeps.
func Index(ic *plugin.InitContext) (ImageIndex, error) {
	instance, err := ic.GetByID(plugins.CRIServicePlugin, "images")
	if err != nil {
		return nil, fmt.Errorf("CRI's image plugin: %w", err)
	}
	index, ok := instance.(ImageIndex)
	if !ok {
		return nil, fmt.Errorf("CRI's image plugin is a %T, which cannot be told of images", instance)
	}
	return index, nil
}

func single[T any](ic *plugin.InitContext, kind plugin.Type) (T, error) {
	var none T
	instance, err := ic.GetSingle(kind)
	if err != nil {
		return none, fmt.Errorf("plugin %s: %w", kind, err)
	}
	t, ok := instance.(T)
	if !ok {
		return none, fmt.Errorf("plugin %s is a %T", kind, instance)
	}
	return t, nil
}

func diffService(ic *plugin.InitContext) (diff.Applier, error) {
	instance, err := ic.GetByID(plugins.ServicePlugin, services.DiffService)
	if err != nil {
		return nil, fmt.Errorf("the diff service: %w", err)
	}
	client, ok := instance.(diffapi.DiffClient)
	if !ok {
		return nil, fmt.Errorf("the diff service is a %T", instance)
	}
	applier, ok := proxy.NewDiffApplier(client).(diff.Applier)
	if !ok {
		return nil, errors.New("containerd's client of the diff service does not apply")
	}
	return applier, nil
}

func imageVerifiers(ic *plugin.InitContext) (map[string]imageverifier.ImageVerifier, error) {
	instances, err := ic.GetByType(plugins.ImageVerifierPlugin)
	if err != nil && !errors.Is(err, plugin.ErrPluginNotFound) {
		return nil, err
	}
	if len(instances) == 0 {
		return nil, nil
	}
	verifiers := map[string]imageverifier.ImageVerifier{}
	for name, instance := range instances {
		v, ok := instance.(imageverifier.ImageVerifier)
		if !ok {
			return nil, fmt.Errorf("image verifier %s is a %T", name, instance)
		}
		verifiers[name] = v
	}
	return verifiers, nil
}
