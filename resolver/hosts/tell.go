// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"bytes"
	"path/filepath"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// maxUnknown bounds the unknown keys of one file that are named in the log.
const maxUnknown = 16

// tell logs what is new since before: a mistake, its end, unknown keys, and a registry
// that is asked twice, once for each version of a file.
func (w *watched) tell(dir string, before *watched) {
	failed := before != nil && before.err != nil
	switch {
	case w.err != nil && failed && w.err.Error() == before.err.Error():
	case w.err != nil:
		prefixlog.L().WithError(w.err).Errorf("the hosts configuration in %s is not taken; %s", dir, Problem{LastGood: len(w.good.text) > 0}.Consequence())
	case failed:
		prefixlog.L().Infof("the hosts configuration in %s is taken again", dir)
	}
	if w.err != nil || bytes.Equal(w.warned, w.state.text) {
		return
	}
	w.warned = w.state.text
	file := filepath.Join(dir, fileName)
	for i, e := range UnknownKeys(file, w.state.text) {
		if i == maxUnknown {
			prefixlog.L().Warnf("%s has more keys that containerd passes over", file)
			break
		}
		prefixlog.L().Warnf("containerd passes over a key of hosts.toml: %s", clean(e.Error()))
	}
	for _, e := range RepeatsServer(file, w.state.text) {
		prefixlog.L().Warnf("a host is asked twice: %s", clean(e.Error()))
	}
}
