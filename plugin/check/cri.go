// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"maps"
	"path/filepath"
	"strconv"

	"github.com/pullwarden/pullwarden/plugin/pull"
)

// defaultHostDirs are where CRI looks for hosts.toml unless it is told otherwise.
const defaultHostDirs = "/etc/containerd/certs.d:/etc/docker/certs.d"

// deprecated are the settings of CRI's registries that hosts.toml has replaced.
var deprecated = []string{"mirrors", "configs", "auths"}

// criSettings reports settings of containerd's with which rules are not kept, or
// pulls are slow.
func (f *configuration) criSettings() {
	if !f.section.Enabled {
		return
	}
	for _, plugin := range []string{oldCRI, criImages, criRuntime} {
		f.switchesOff(plugin, CRISwitchedOff, "disabled_plugins switches "+plugin+" off: CRI does not start, and no pod does")
	}
	images := f.table(criImages)
	registry, _ := images["registry"].(map[string]any)
	f.registrySettings(registry)
	local := pullsLocally(images, registry)
	f.sourcesNotKept(images, local)
	f.slowDefaults(images, local)
}

// registrySettings reports where CRI still has its own words for what hosts.toml files say, and where those
// are beside the directory of such files: CRI refuses both together.
func (f *configuration) registrySettings(registry map[string]any) {
	path, _ := registry["config_path"].(string)
	for _, key := range deprecated {
		if _, ok := registry[key]; !ok {
			continue
		}
		id, text := DeprecatedMirrors, "containerd has deprecated registry."+key+
			", which changes with a restart only: take it out, and write hosts.toml files, whose directory is registry.config_path"
		if mirrors, _ := registry[key].(map[string]any); key == "mirrors" && len(mirrors) > 0 && path != "" {
			id, text = BadValue, "CRI does not start with registry.mirrors beside registry.config_path = "+strconv.Quote(path)+": take registry.mirrors out"
		}
		f.addAt(id, text, keyOf(criImages, "registry", key), keyOf(oldCRI, "registry", key))
	}
}

// pullsLocally reports whether stock containerd would pull without its transfer
// service, by the settings of CheckLocalImagePullConfigs in its CRI configuration.
func pullsLocally(images, registry map[string]any) bool {
	on := func(key string) bool { return images[key] == true }
	downloads, limited := images["max_concurrent_downloads"]
	if on("use_local_image_pull") || on("discard_unpacked_layers") || on("image_pull_with_sync_fs") ||
		images["disable_snapshot_annotations"] == false || limited && downloads != int64(3) {
		return true
	}
	for _, key := range deprecated {
		if _, ok := registry[key]; ok {
			return true
		}
	}
	return false
}

// sourcesNotKept reports what the daemon warns of at its start.
func (f *configuration) sourcesNotKept(images map[string]any, local bool) {
	// The defaults of containerd, with what is written over them.
	written := map[string]any{"snapshotter": "overlayfs", "disable_snapshot_annotations": true, "max_concurrent_downloads": int64(3), "image_pull_progress_timeout": "5m"}
	maps.Copy(written, images)
	settings, err := pull.ReadSettings(written, f.table(criRuntime))
	if err != nil {
		f.documents[0].errors(err)
		return
	}
	settings.Local = local
	exports := map[string]map[string]string{}
	for name, proxy := range f.merged.ProxyPlugins {
		if proxy.Type == "snapshot" {
			exports[name] = maps.Clone(proxy.Exports)
			if exports[name] == nil {
				exports[name] = map[string]string{}
			}
			exports[name][pull.ExportAddress] = proxy.Address
		}
	}
	for _, limit := range settings.Limits(exports) {
		f.addAt(SourcesNotKept, limit.String(), keyOf(criImages, "disable_snapshot_annotations"),
			keyOf(oldCRI, "containerd", "disable_snapshot_annotations"), "proxy_plugins."+limit.Snapshotter)
	}
}

// slowDefaults reports that nobody has said how parallel pulls are to be.
func (f *configuration) slowDefaults(images map[string]any, local bool) {
	if local {
		if _, ok := images["concurrent_layer_fetch_buffer"]; !ok {
			f.addAt(SlowDefaults, "containerd fetches each layer as one stream: set concurrent_layer_fetch_buffer in [plugins.\""+criImages+"\"]", keyOf(criImages), keyOf(oldCRI))
		}
		return
	}
	transfer := f.table(localTransfer)
	_, unpacks := transfer["max_concurrent_unpacks"]
	_, buffer := transfer["concurrent_layer_fetch_buffer"]
	what, keys := "unpacks one layer at a time and fetches each as one stream", "max_concurrent_unpacks and concurrent_layer_fetch_buffer"
	switch {
	case unpacks && buffer:
		return
	case unpacks:
		what, keys = "fetches each layer as one stream", "concurrent_layer_fetch_buffer"
	case buffer:
		what, keys = "unpacks one layer at a time", "max_concurrent_unpacks"
	}
	f.addAt(SlowDefaults, "containerd "+what+": set "+keys+" in [plugins.\""+localTransfer+"\"]", keyOf(localTransfer))
}

// hostDirs are the directories of hosts.toml files.
func (f *configuration) hostDirs() []string {
	registry, _ := f.table(criImages)["registry"].(map[string]any)
	if path, ok := registry["config_path"].(string); ok && path != "" {
		return filepath.SplitList(path)
	}
	for _, key := range deprecated {
		if _, ok := registry[key]; ok {
			return nil
		}
	}
	return filepath.SplitList(defaultHostDirs)
}
