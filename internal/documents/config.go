// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/labels"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// maxUser bounds the user of a config, in bytes: CRI has it in each list of all images, of which a
	// kubelet takes 16 MiB.
	maxUser = 4 << 10
	// maxPath bounds what else CRI, or a runtime, writes of a config into errors, in bytes: of
	// Linux's paths, none has more.
	maxPath = 4 << 10
	// maxLabelKey bounds the key of a label, in bytes. Values are free: builders keep lists there.
	maxLabelKey = 512
	// maxPlatform bounds each part of a platform, in bytes. containerd knows those that it runs by far shorter ones.
	maxPlatform = 255
	// maxTold bounds all of that together, in bytes: a registry chooses how often it is told, in which each secret is looked
	// for.
	maxTold = 256 << 10
	// maxConfigObjects and maxConfigMembers are maxObjects and maxMembers of a config, of which CRI keeps all in memory, as
	// long as the image is there: a step of history has 64 bytes and more there. Honest ones have some hundred.
	maxConfigObjects = 10_000
	maxConfigMembers = 20_000
	// maxLabelsLeft bounds the labels of which CRI warns for each container.
	maxLabelsLeft = 64
)

func validateConfig(data []byte) error {
	var n counter
	n.add(data)
	if err := n.within(maxConfigObjects, maxConfigMembers); err != nil {
		return err
	}
	c := runConfig(data)
	all := 0
	for _, t := range toldOf(c) {
		if err := checkLength(t.field, len(t.text), t.most); err != nil {
			return err
		}
		all += len(t.text)
	}
	if left := labelsLeft(c.Config.Labels); left > maxLabelsLeft {
		return fmt.Errorf("config.Labels has %d that are reserved for containerd, or too long for it: more than %d are not allowed", left, maxLabelsLeft)
	}
	if err := checkLength("config, in what gets into errors and logs,", all, maxTold); err != nil {
		return err
	}
	var layers struct {
		RootFS ocispec.RootFS `json:"rootfs"`
	}
	if !decoded(data, &layers) {
		return nil
	}
	return checkDiffIDs(layers.RootFS.DiffIDs)
}

// imageConfig is what containerd and CRI read of a config before and for containers.
type imageConfig struct {
	ocispec.Platform
	Config ocispec.ImageConfig `json:"config"`
}

// runConfig reads a config. A field that cannot be read hides no other.
func runConfig(data []byte) (c imageConfig) {
	_ = json.Unmarshal(data, &c)
	return c
}

// told is a text of a config that gets into errors or logs.
type told struct {
	field, text string
	most        int // bytes that it may have
}

// toldOf lists what containerd, CRI, or a runtime, tells of a config. Arguments, and values of variables and labels, are not
// among it: programs take these, and they may be of any length.
func toldOf(config imageConfig) []told {
	c := config.Config
	all := []told{
		{"os", config.OS, maxPlatform},
		{"architecture", config.Architecture, maxPlatform},
		{"variant", config.Variant, maxPlatform},
		{"config.User", c.User, maxUser},
		{"config.WorkingDir", c.WorkingDir, maxPath},
		{"config.StopSignal", c.StopSignal, maxPath},
	}
	if field, words := program(c); len(words) > 0 { // the first is the program, the others may be a script
		all = append(all, told{field + "[0]", words[0], maxPath})
	}
	for _, variable := range c.Env {
		name, _, _ := strings.Cut(variable, "=")
		all = append(all, told{"a name in config.Env", name, maxPath})
	}
	for volume := range c.Volumes {
		all = append(all, told{"a key of config.Volumes", volume, maxPath})
	}
	for key := range c.Labels {
		all = append(all, told{"a key of config.Labels", key, maxLabelKey})
	}
	return all
}

// program is what CRI runs where a pod says nothing else, with the field that begins it: as Docker does, it takes an
// entrypoint of one empty word for none.
func program(c ocispec.ImageConfig) (field string, words []string) {
	if len(c.Entrypoint) == 0 || len(c.Entrypoint) == 1 && c.Entrypoint[0] == "" {
		return "config.Cmd", c.Cmd
	}
	return "config.Entrypoint", c.Entrypoint
}

// labelsLeft counts the labels that CRI leaves out of containers, and warns of.
func labelsLeft(all map[string]string) (left int) {
	for key, value := range all {
		if labels.IsReserved(key) || labels.Validate(key, value) != nil {
			left++
		}
	}
	return left
}

// RepeatsIn returns the field of a config, of which CRI or a runtime tells, that has something; "" for none, and
// for what is no config.
func RepeatsIn(mediaType string, data []byte, has func(text string) bool) (field string) {
	if !images.IsConfigType(mediaType) {
		return ""
	}
	all := toldOf(runConfig(data))
	if i := slices.IndexFunc(all, func(t told) bool { return has(t.text) }); i >= 0 {
		return all[i].field
	}
	return ""
}
