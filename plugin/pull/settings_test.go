// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/plugin/registry"
	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	// The settings are read from CRI's own plugins.
	_ "github.com/containerd/containerd/v2/plugins/cri/images"
	_ "github.com/containerd/containerd/v2/plugins/cri/runtime"
)

// pluginConfig is a copy of a CRI plugin's default configuration with the
// operator's over it.
func pluginConfig(t *testing.T, id, written string) any {
	t.Helper()
	for _, r := range registry.Graph(nil) {
		if r.Type == plugins.CRIServicePlugin && r.ID == id {
			config := reflect.New(reflect.TypeOf(r.Config).Elem())
			defaults, err := toml.Marshal(r.Config)
			check(t, err)
			check(t, toml.Unmarshal(defaults, config.Interface()))
			check(t, toml.Unmarshal([]byte(written), config.Interface()))
			return config.Interface()
		}
	}
	t.Fatalf("containerd has no CRI plugin %q", id)
	return nil
}

const (
	allImages = `
snapshotter = "native"
use_local_image_pull = true
disable_snapshot_annotations = false
discard_unpacked_layers = true
max_concurrent_downloads = 20
concurrent_layer_fetch_buffer = 1024
image_pull_progress_timeout = "90s"
image_pull_with_sync_fs = true
[pinned_images]
sandbox = "registry.k8s.io/pause"
base = "docker.io/library/base:1"
[image_decryption]
key_model = ""
[registry]
config_path = "/etc/containerd/certs.d:/etc/docker/certs.d"
[runtime_platforms.both]
platform = "linux/amd64"
snapshotter = "images"
[runtime_platforms.default]
platform = "linux/amd64"
`
	allRuntimes = `
[containerd]
default_runtime_name = "blocky"
[containerd.runtimes.both]
runtime_type = "io.containerd.runc.v2"
snapshotter = "runtime"
[containerd.runtimes.default]
runtime_type = "io.containerd.runc.v2"
snapshotter = "runtime"
[containerd.runtimes.blocky]
runtime_type = "io.containerd.runc.v2"
snapshotter = "blockfile"
disable_pause_image_pull = true
[containerd.runtimes.plain]
runtime_type = "io.containerd.runc.v2"
`
)

func TestReadSettings(t *testing.T) {
	pause := "registry.k8s.io/pause"
	withoutPause := map[string]bool{"": true, "blocky": true}
	checkpoints := strings.HasPrefix(version.Version, "2.3.") // it alone has enable_experimental_restore_via_create, and no disable_pause_image_pull
	if checkpoints {
		withoutPause = map[string]bool{}
	}
	for name, tc := range map[string]struct {
		images, runtimes string
		want             Settings
	}{
		"defaults": {"", "", Settings{
			Snapshotter: "overlayfs", Snapshotters: map[string]string{}, ContainerSnapshotters: map[string]string{}, PinnedImages: []string{pause}, SandboxImage: pause,
			ProgressTimeout: 5 * time.Minute, MaxConcurrentDownloads: 3, DecryptOnNode: true,
			WithoutSandboxImage: map[string]bool{}, KnowsCheckpoints: checkpoints,
		}},
		"everything": {allImages, allRuntimes, Settings{
			Local: true, Snapshotter: "native",
			// The image plugin's word counts before the runtime plugin's.
			Snapshotters: map[string]string{"both": "images", "default": "native", "blocky": "blockfile"},
			// Containers have the runtime plugin's; no handler is the default one.
			ContainerSnapshotters: map[string]string{"both": "runtime", "default": "runtime", "blocky": "blockfile", "": "blockfile"},
			PinnedImages:          []string{"docker.io/library/base:1", pause},
			SandboxImage:          pause, ProgressTimeout: 90 * time.Second,
			MaxConcurrentDownloads: 20, LayerFetchBuffer: 1024,
			SnapshotAnnotations: true, DiscardLayers: true, SyncFS: true,
			WithoutSandboxImage: withoutPause, SeveralHostDirs: true, KnowsCheckpoints: checkpoints,
		}},
	} {
		got, err := ReadSettings(pluginConfig(t, "images", tc.images), pluginConfig(t, "runtime", tc.runtimes))
		check(t, err)
		// The tag of the sandbox image is containerd's affair.
		for i, ref := range got.PinnedImages {
			if strings.HasPrefix(ref, pause) {
				got.PinnedImages[i] = pause
			}
		}
		got.SandboxImage, _, _ = strings.Cut(got.SandboxImage, ":")
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestReadSettingsRefusesWhatCRICannotUse(t *testing.T) {
	_, err := ReadSettings(pluginConfig(t, "images", `image_pull_progress_timeout = "soon"`), nil)
	if err == nil || !strings.Contains(err.Error(), "image_pull_progress_timeout") {
		t.Error(err)
	}
}

func TestSnapshotterFor(t *testing.T) {
	s := Settings{
		Snapshotter: "overlayfs", Snapshotters: map[string]string{"blocky": "blockfile"},
		ContainerSnapshotters: map[string]string{"": "native", "blocky": "blockfile"},
	}
	for handler, want := range map[string]string{"": "overlayfs", "runc": "overlayfs", "blocky": "blockfile"} {
		if got := s.SnapshotterFor(handler); got != want {
			t.Errorf("%q: %s, want %s", handler, got, want)
		}
	}
	for handler, want := range map[string]string{"": "native", "runc": "overlayfs", "blocky": "blockfile"} {
		if got := s.ContainerSnapshotter(handler); got != want {
			t.Errorf("containers of %q: %s, want %s", handler, got, want)
		}
	}
}
