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
func (w *Watcher) tell(dir string, now, before *watched) {
	failed := before != nil && before.err != nil
	switch {
	case now.err != nil && failed && now.err.Error() == before.err.Error():
	case now.err != nil:
		problem, _ := w.problem(dir, now)
		prefixlog.L().WithError(now.err).Errorf("the hosts configuration in %s is not taken; %s", dir, problem.Consequence())
	case failed:
		prefixlog.L().Infof("the hosts configuration in %s is taken again", dir)
	}
	if now.err != nil || bytes.Equal(now.warned, now.state.text) {
		return
	}
	now.warned = now.state.text
	file := filepath.Join(dir, fileName)
	for i, e := range UnknownKeys(file, now.state.text) {
		if i == maxUnknown {
			prefixlog.L().Warnf("%s has more keys that containerd passes over", file)
			break
		}
		prefixlog.L().Warnf("containerd passes over a key of hosts.toml: %s", clean(e.Error()))
	}
	for _, e := range RepeatsServer(file, now.state.text) {
		prefixlog.L().Warnf("a host is asked twice: %s", clean(e.Error()))
	}
}
