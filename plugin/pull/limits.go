// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"cmp"
	"fmt"
)

// Limit is a setting with which a promise of a rule cannot be kept.
type Limit struct {
	// Setting names the setting as the operator writes it.
	Setting string
	// Snapshotter is the one that the setting is about.
	Snapshotter string
}

// String says what follows from the setting.
func (l Limit) String() string {
	return fmt.Sprintf("%s: snapshotter %q may fetch layers by itself, from hosts that no rule limits; "+
		"requests under a rule with allowed_sources fail with it", l.Setting, l.Snapshotter)
}

// LimitError is the error of a request under a rule that cannot be kept.
type LimitError struct{ Limit Limit }

// Error names the setting and the snapshotter.
func (e *LimitError) Error() string {
	return fmt.Sprintf("allowed_sources cannot be kept with %s: snapshotter %q may fetch layers by itself",
		e.Limit.Setting, e.Limit.Snapshotter)
}

// Limits lists what cannot be kept, for each snapshotter that the settings name.
// exports are what the plugins of the snapshotters export, by snapshotter.
func (s Settings) Limits(exports map[string]map[string]string) (all []Limit) {
	for _, name := range s.used() {
		if limit, ok := s.limit(name, exports[name]); ok {
			all = append(all, limit)
		}
	}
	return all
}

// Limits lists what cannot be kept. It is to be logged at start.
func (p *Puller) Limits() []Limit { return p.settings.Limits(p.exports) }

// Limit returns the error of requests under a rule with allowed_sources, a
// *LimitError: images that the snapshotter unpacks may come from other hosts. It
// is nil where the rule can be kept. "" is CRI's default snapshotter.
func (p *Puller) Limit(snapshotter string) error {
	snapshotter = cmp.Or(snapshotter, p.settings.Snapshotter)
	if limit, ok := p.settings.limit(snapshotter, p.exports[snapshotter]); ok {
		return &LimitError{limit}
	}
	return nil
}

// ExportAddress is the export that only plugins of [proxy_plugins] have.
const ExportAddress = "address"

// limit reports whether a snapshotter may fetch layers by itself: it runs
// outside of containerd, and is told which image a layer is of. The snapshotters
// that containerd has built in fetch nothing.
func (s Settings) limit(snapshotter string, exports map[string]string) (limit Limit, ok bool) {
	if exports[ExportAddress] == "" {
		return Limit{}, false
	}
	if s.Local {
		return Limit{"disable_snapshot_annotations = false", snapshotter}, s.SnapshotAnnotations
	}
	setting := fmt.Sprintf("[proxy_plugins.%s.exports] %s = \"true\"", snapshotter, remoteAnnotations)
	return Limit{setting, snapshotter}, exports[remoteAnnotations] == "true"
}

// MayBeRemote reports whether a snapshotter may leave the bytes of layers elsewhere: as limit has it, or it says itself
// that it can be told which image a layer is of, as one may that is compiled in.
func (p *Puller) MayBeRemote(snapshotter string) bool {
	exports := p.exports[snapshotter]
	return exports[ExportAddress] != "" || exports[remoteAnnotations] != ""
}
