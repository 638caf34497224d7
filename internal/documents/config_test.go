// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// configOf is a config that says that of containers.
func configOf(t *testing.T, c ocispec.ImageConfig) []byte {
	t.Helper()
	data, err := json.Marshal(map[string]any{"config": c, "rootfs": ocispec.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// labelled are that many labels with that beginning of their keys, and a value.
func labelled(prefix string, n int, value string) ocispec.ImageConfig {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprint(prefix, i)] = value
	}
	return ocispec.ImageConfig{Labels: all}
}

// variables are that many.
func variables(n int, each string) ocispec.ImageConfig {
	return ocispec.ImageConfig{Env: slices.Repeat([]string{each}, n)}
}

// What CRI writes of a config into errors and logs is bounded; what honest images have of it is not.
func TestConfigsAreBounded(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	key := func(n int) ocispec.ImageConfig {
		return ocispec.ImageConfig{Labels: map[string]string{long(n): ""}}
	}
	for what, tc := range map[string]struct {
		config  ocispec.ImageConfig
		refused string // "" = it is not
	}{
		"paths": {ocispec.ImageConfig{
			User: long(maxUser), WorkingDir: long(maxPath), StopSignal: "SIGRTMIN+3", Entrypoint: []string{long(maxPath), long(100_000)},
			Cmd: []string{long(100_000)}, Env: []string{"A=" + long(100_000), long(maxPath)}, Volumes: map[string]struct{}{long(maxPath): {}},
		}, ""},
		"a command":         {ocispec.ImageConfig{Cmd: []string{long(maxPath), long(100_000)}}, ""},
		"a directory":       {ocispec.ImageConfig{WorkingDir: long(maxPath + 1)}, "config.WorkingDir "},
		"a signal":          {ocispec.ImageConfig{StopSignal: long(maxPath + 1)}, "config.StopSignal "},
		"a program":         {ocispec.ImageConfig{Entrypoint: []string{long(maxPath + 1)}}, "config.Entrypoint[0] "},
		"one of a command":  {ocispec.ImageConfig{Cmd: []string{long(maxPath + 1)}}, "config.Cmd[0] "},
		"one of no word":    {ocispec.ImageConfig{Entrypoint: []string{""}, Cmd: []string{long(maxPath + 1)}}, "config.Cmd[0] "},
		"one of two":        {ocispec.ImageConfig{Entrypoint: []string{"", "x"}, Cmd: []string{long(100_000)}}, ""},
		"a script":          {ocispec.ImageConfig{Entrypoint: []string{"sh", "-c"}, Cmd: []string{long(100_000)}}, ""},
		"a variable":        {ocispec.ImageConfig{Env: []string{"A=b", long(maxPath+1) + "=b"}}, "a name in config.Env "},
		"a volume":          {ocispec.ImageConfig{Volumes: map[string]struct{}{"/a": {}, long(maxPath + 1): {}}}, "a key of config.Volumes "},
		"many variables":    {variables(maxTold/1000, long(1000)), ""},
		"too many":          {variables(maxTold/1000+1, long(1000)), "config, in what gets into errors and logs, has "},
		"many long ones":    {variables(10, "A="+long(300_000)), ""},
		"a label":           {key(maxLabelKey), ""},
		"a long label":      {key(maxLabelKey + 1), "a key of config.Labels "},
		"many labels":       {labelled("org.example/", 14_000, "v"), ""},
		"too many labels":   {labelled("org.example/", maxConfigMembers, ""), "it is a document of more than 20000 members"},
		"too many words":    {ocispec.ImageConfig{Cmd: slices.Repeat([]string{""}, maxConfigObjects)}, "it is a document of more than 10000 objects"},
		"some long values":  {labelled("io.buildpacks.", maxLabelsLeft, long(10_000)), ""},
		"many long values":  {labelled("io.buildpacks.", maxLabelsLeft+1, long(10_000)), "config.Labels "},
		"reserved":          {labelled("containerd.io/", maxLabelsLeft, ""), ""},
		"many reserved":     {labelled("containerd.io/", maxLabelsLeft+1, ""), "config.Labels "},
		"many that are CRI": {labelled("io.cri-containerd", maxLabelsLeft+1, ""), "config.Labels "},
	} {
		err := Validate(ocispec.MediaTypeImageConfig, configOf(t, tc.config))
		if (err != nil) != (tc.refused != "") || err != nil && (!strings.HasPrefix(err.Error(), tc.refused) || len(err.Error()) > maxQuoted) {
			t.Errorf("%s: %.300v, want %q", what, err, tc.refused)
		}
	}
}

// What cannot be read of a config hides nothing else.
func TestFieldsThatCannotBeReadHideNoOther(t *testing.T) {
	for _, document := range []string{
		`{"config":{"Env":1,"WorkingDir":"` + strings.Repeat("x", maxPath+1) + `"}}`,
		`{"config":{"workingdir":"` + strings.Repeat("x", maxPath+1) + `","Env":{}}}`,
	} {
		if err := Validate(ocispec.MediaTypeImageConfig, []byte(document)); err == nil {
			t.Errorf("no error for %.60s", document)
		}
	}
}

// An entrypoint of one empty word is none to CRI.
func TestRepeatsInACommand(t *testing.T) {
	has := func(text string) bool { return text == "/open-sesame" }
	for _, entrypoint := range [][]string{nil, {}, {""}} {
		c := ocispec.ImageConfig{Entrypoint: entrypoint, Cmd: []string{"/open-sesame"}}
		if got := RepeatsIn(ocispec.MediaTypeImageConfig, configOf(t, c), has); got != "config.Cmd[0]" {
			t.Errorf("%q: got %q", entrypoint, got)
		}
	}
}

// RepeatsIn finds what CRI tells of a config alone.
func TestRepeatsIn(t *testing.T) {
	const secret = "open-sesame"
	has := func(text string) bool { return strings.Contains(text, secret) }
	for field, c := range map[string]ocispec.ImageConfig{
		"config.User":             {User: secret},
		"config.WorkingDir":       {WorkingDir: "/" + secret},
		"config.StopSignal":       {StopSignal: secret},
		"config.Entrypoint[0]":    {Entrypoint: []string{secret}, Cmd: []string{"x"}},
		"config.Cmd[0]":           {Cmd: []string{secret}},
		"a name in config.Env":    {Env: []string{"A=" + secret, secret + "=A"}},
		"a key of config.Volumes": {Volumes: map[string]struct{}{"/a": {}, "/" + secret: {}}},
		"a key of config.Labels":  {Labels: map[string]string{"a": "b", secret: ""}},
		"":                        {Entrypoint: []string{"sh", secret}, Cmd: []string{secret}, Env: []string{"A=" + secret}, Labels: map[string]string{"a": secret}},
	} {
		if got := RepeatsIn(ocispec.MediaTypeImageConfig, configOf(t, c), has); got != field {
			t.Errorf("got %q, want %q", got, field)
		}
	}
	for _, field := range []string{"os", "architecture", "variant"} {
		if got := RepeatsIn(ocispec.MediaTypeImageConfig, fmt.Appendf(nil, `{%q:%q,"created":0}`, field, secret), has); got != field {
			t.Errorf("got %q, want %q", got, field)
		}
	}
	if got := RepeatsIn(ocispec.MediaTypeImageManifest, configOf(t, ocispec.ImageConfig{User: secret}), has); got != "" {
		t.Errorf("got %q of a manifest", got)
	}
}

// CRI keeps the config of each image that is on the node, decoded.
func TestMemoryOfConfigs(t *testing.T) {
	const most, copies = 8 << 20, 4
	c := labelled("", 14_000, "")
	c.Cmd = []string{"x", strings.Repeat("x", 3_800_000)}
	data, err := json.Marshal(map[string]any{"config": c, "history": make([]struct{}, 9_900)})
	if err != nil {
		t.Fatal(err)
	}
	if err := Validate(ocispec.MediaTypeImageConfig, data); err != nil {
		t.Fatal(err)
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, kept := heap(), make([]ocispec.Image, copies)
	for i := range kept {
		if err := json.Unmarshal(data, &kept[i]); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / copies
	runtime.KeepAlive(kept)
	if each > most {
		t.Errorf("%d bytes for each", each)
	}
}
