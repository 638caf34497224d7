// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// killIn kills the daemon in a pull.
func (h *history) killIn(o Op) error {
	now, p, failed := h.reg.now(), o.Pulls[0], error(nil)
	answers, err := h.pull(o.Pulls, func() (end func()) {
		return h.reg.at(o.Moment, func() { failed = h.node.Kill() })
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	a := answers[0]
	h.done.kills[h.phase(a)]++
	var all, fit []Branch
	for _, w := range h.worlds {
		all = append(all, w.Pull(now, now, p)...)
	}
	for _, b := range all {
		if b.Saw == a.Saw && h.isImage(a, b.After.content(p)) {
			fit = append(fit, b)
		}
	}
	switch {
	case a.decided && len(fit) == 0:
		return h.unexplained(p, a, all, now)
	case a.decided:
		h.become(fit)
		h.worlds = append(h.worlds, h.lost...)
	default:
		var left []World
		for _, w := range h.worlds {
			left = append(left, killed(w, w.Pull(now, now, p))...)
		}
		h.worlds = left
	}
	return h.restart(func() error { return nil })
}

// phase tells how far the pull had come.
func (h *history) phase(a answer) phase {
	if a.decided {
		return afterAll
	}
	at := beforeCheck
	for _, r := range h.reg.Requests() {
		switch {
		case r.Part == resolvertest.Blobs:
			at = max(at, inLayers)
		case r.Part == resolvertest.Manifests && r.Method == http.MethodGet:
			at = max(at, inManifest)
		default:
			at = max(at, inCheck)
		}
	}
	return at
}
