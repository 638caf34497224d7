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

// Limits lists what cannot be kept, for each snapshotter that CRI's settings
// name. It is to be logged at start.
func (p *Puller) Limits() (all []Limit) {
	for _, name := range p.settings.used() {
		if limit, ok := p.limit(name); ok {
			all = append(all, limit)
		}
	}
	return all
}

// Limit returns the error of requests under a rule with allowed_sources, a
// *LimitError: images that the snapshotter unpacks may come from other hosts. It
// is nil where the rule can be kept. "" is CRI's default snapshotter.
func (p *Puller) Limit(snapshotter string) error {
	if limit, ok := p.limit(cmp.Or(snapshotter, p.settings.Snapshotter)); ok {
		return &LimitError{limit}
	}
	return nil
}

// limit reports whether a snapshotter may fetch layers by itself: it runs
// outside of containerd, and is told which image a layer is of. The snapshotters
// that containerd has built in fetch nothing.
func (p *Puller) limit(snapshotter string) (limit Limit, ok bool) {
	exports := p.exports[snapshotter]
	if exports["address"] == "" { // only plugins of [proxy_plugins] have one
		return Limit{}, false
	}
	if p.settings.Local {
		return Limit{"disable_snapshot_annotations = false", snapshotter}, p.settings.SnapshotAnnotations
	}
	setting := fmt.Sprintf("[proxy_plugins.%s.exports] %s = \"true\"", snapshotter, remoteAnnotations)
	return Limit{setting, snapshotter}, exports[remoteAnnotations] == "true"
}
