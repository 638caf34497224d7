// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// Settings are CRI's settings of a pull.
type Settings struct {
	// Local says that CRI pulls without the transfer service: with
	// use_local_image_pull, or with one of the settings that make CRI set it.
	// The settings of transfers below count only then; otherwise those of the
	// transfer service itself do.
	Local bool

	// Snapshotter is the default one.
	Snapshotter string
	// Snapshotters are those of the runtime handlers that are configured, for pulls whose request names one.
	Snapshotters map[string]string
	// ContainerSnapshotters are those that containers run by, where these are not the default one, by the
	// runtime handlers of their pods; "" is the default handler.
	ContainerSnapshotters map[string]string
	// PinnedImages are the references that CRI protects from the kubelet's
	// garbage collection.
	PinnedImages []string
	// SandboxImage is the reference of the image of pods; "" for none.
	SandboxImage string
	// WithoutSandboxImage are the runtime handlers whose pods need no such image;
	// "" is the default one.
	WithoutSandboxImage map[string]bool
	// RestoresCheckpoints says that CRI makes the container of an image that is a
	// checkpoint, as containerd 2.3 does by enable_experimental_restore_via_create, of
	// another image: of that which the checkpoint names.
	RestoresCheckpoints bool
	// KnowsCheckpoints says that CRI has that setting: without it, too, it makes no container of an image that is a checkpoint.
	KnowsCheckpoints bool
	// SeveralHostDirs says that CRI's config_path lists more than one directory, as
	// it does by default. CRI gives the transfer service the list as if it were one,
	// which then finds no hosts.toml.
	SeveralHostDirs bool
	// ProgressTimeout ends a pull when no byte of a download has come for so
	// long; 0 = never.
	ProgressTimeout time.Duration

	// MaxConcurrentDownloads bounds the downloads of all pulls; 0 = no bound.
	MaxConcurrentDownloads int
	// LayerFetchBuffer is concurrent_layer_fetch_buffer: the bytes of a chunk
	// when layers are downloaded in parallel chunks; 0 = they are not.
	LayerFetchBuffer int
	// SnapshotAnnotations tells snapshotters which image a layer is of, so that
	// lazy ones can fetch it themselves.
	SnapshotAnnotations bool
	// DiscardLayers lets the garbage collection remove layers once they are
	// unpacked.
	DiscardLayers bool
	// SyncFS writes an unpacked layer to disk before its snapshot is committed.
	SyncFS bool
	// DecryptOnNode decrypts layers with keys that are on the node.
	DecryptOnNode bool
}

// SnapshotterFor returns the snapshotter of a runtime handler, and the default
// one for a handler that CRI does not know and for "".
func (s Settings) SnapshotterFor(handler string) string {
	if snapshotter, ok := s.Snapshotters[handler]; ok {
		return snapshotter
	}
	return s.Snapshotter
}

// ContainerSnapshotter returns the snapshotter that containers of a pod run by, whose sandbox
// has that runtime handler; "" is the default handler.
func (s Settings) ContainerSnapshotter(handler string) string {
	return cmp.Or(s.ContainerSnapshotters[handler], s.Snapshotter)
}

// used lists the snapshotters that pulls may unpack with, each once.
func (s Settings) used() []string {
	all := append(slices.Collect(maps.Values(s.Snapshotters)), s.Snapshotter)
	all = slices.AppendSeq(all, maps.Values(s.ContainerSnapshotters))
	slices.Sort(all)
	return slices.Compact(all)
}

// keyModelNode is the only model of image_decryption that containerd has.
const keyModelNode = "node"

type imagesTOML struct {
	Snapshotter                string            `toml:"snapshotter"`
	UseLocalImagePull          bool              `toml:"use_local_image_pull"`
	DisableSnapshotAnnotations bool              `toml:"disable_snapshot_annotations"`
	DiscardUnpackedLayers      bool              `toml:"discard_unpacked_layers"`
	PinnedImages               map[string]string `toml:"pinned_images"`
	MaxConcurrentDownloads     int               `toml:"max_concurrent_downloads"`
	ConcurrentLayerFetchBuffer int               `toml:"concurrent_layer_fetch_buffer"`
	ImagePullProgressTimeout   string            `toml:"image_pull_progress_timeout"`
	ImagePullWithSyncFS        bool              `toml:"image_pull_with_sync_fs"`
	ImageDecryption            struct {
		KeyModel string `toml:"key_model"`
	} `toml:"image_decryption"`
	RuntimePlatforms map[string]struct {
		Snapshotter string `toml:"snapshotter"`
	} `toml:"runtime_platforms"`
	Registry struct {
		ConfigPath string `toml:"config_path"`
	} `toml:"registry"`
}

type runtimeTOML struct {
	RestoreViaCreate *bool `toml:"enable_experimental_restore_via_create"`

	Containerd struct {
		DefaultRuntimeName string `toml:"default_runtime_name"`
		Runtimes           map[string]struct {
			Snapshotter           string `toml:"snapshotter"`
			DisablePauseImagePull bool   `toml:"disable_pause_image_pull"`
		} `toml:"runtimes"`
	} `toml:"containerd"`
}

// ReadSettings reads the configuration that CRI's image plugin and CRI's
// runtime plugin were started with; the second may be nil. Their types are
// internal to containerd, but marshal to the TOML that the operator wrote.
func ReadSettings(imagePlugin, runtimePlugin any) (Settings, error) {
	var images imagesTOML
	if err := remarshal(imagePlugin, &images); err != nil {
		return Settings{}, fmt.Errorf("read the configuration of CRI's image plugin: %w", err)
	}
	var runtimes runtimeTOML
	if runtimePlugin != nil {
		if err := remarshal(runtimePlugin, &runtimes); err != nil {
			return Settings{}, fmt.Errorf("read the configuration of CRI's runtime plugin: %w", err)
		}
	}
	timeout, err := time.ParseDuration(images.ImagePullProgressTimeout)
	if err != nil {
		return Settings{}, fmt.Errorf("failed to parse image_pull_progress_timeout %q: %w", images.ImagePullProgressTimeout, err)
	}
	return Settings{
		Local:                  images.UseLocalImagePull,
		Snapshotter:            images.Snapshotter,
		Snapshotters:           snapshotters(images, runtimes),
		ContainerSnapshotters:  containerSnapshotters(runtimes),
		PinnedImages:           slices.Sorted(maps.Values(images.PinnedImages)),
		SandboxImage:           images.PinnedImages["sandbox"],
		WithoutSandboxImage:    withoutSandboxImage(runtimes),
		RestoresCheckpoints:    runtimes.RestoreViaCreate != nil && *runtimes.RestoreViaCreate,
		KnowsCheckpoints:       runtimes.RestoreViaCreate != nil,
		SeveralHostDirs:        len(filepath.SplitList(images.Registry.ConfigPath)) > 1,
		ProgressTimeout:        timeout,
		MaxConcurrentDownloads: images.MaxConcurrentDownloads,
		LayerFetchBuffer:       images.ConcurrentLayerFetchBuffer,
		SnapshotAnnotations:    !images.DisableSnapshotAnnotations,
		DiscardLayers:          images.DiscardUnpackedLayers,
		SyncFS:                 images.ImagePullWithSyncFS,
		DecryptOnNode:          images.ImageDecryption.KeyModel == keyModelNode,
	}, nil
}

// containerSnapshotters returns those that containers run by: CRI takes them from the runtime
// plugin alone.
func containerSnapshotters(runtimes runtimeTOML) map[string]string {
	all := map[string]string{}
	for name, r := range runtimes.Containerd.Runtimes {
		if r.Snapshotter == "" {
			continue
		}
		all[name] = r.Snapshotter
		if name == runtimes.Containerd.DefaultRuntimeName {
			all[""] = r.Snapshotter
		}
	}
	return all
}

// snapshotters returns those of pulls whose request names a runtime handler. A handler that the
// image plugin has a platform for does not take its snapshotter from the runtime
// plugin, even where the platform names none.
func snapshotters(images imagesTOML, runtimes runtimeTOML) map[string]string {
	all := containerSnapshotters(runtimes)
	delete(all, "")
	for name, platform := range images.RuntimePlatforms {
		all[name] = platform.Snapshotter
		if platform.Snapshotter == "" {
			all[name] = images.Snapshotter
		}
	}
	return all
}

func withoutSandboxImage(runtimes runtimeTOML) map[string]bool {
	all := map[string]bool{}
	for name, r := range runtimes.Containerd.Runtimes {
		if r.DisablePauseImagePull {
			all[name] = true
			if name == runtimes.Containerd.DefaultRuntimeName {
				all[""] = true
			}
		}
	}
	return all
}

func remarshal(from, to any) error {
	data, err := toml.Marshal(from)
	if err != nil {
		return err
	}
	return toml.Unmarshal(data, to)
}
