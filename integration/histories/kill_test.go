// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"net/http"
	"slices"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// killIn kills the daemon in pulls.
func (h *history) killIn(ctx context.Context, o Op) error {
	now, failed := h.reg.now(), error(nil)
	answers, err := h.pull(ctx, o.Pulls, func(func()) (end func()) {
		return h.reg.at(o.Moment, func() { failed = h.node.kill() })
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	h.done.kills[h.phase(answers)]++
	if err := (orders{h: h, states: []Registry{now}, killed: true, pulls: o.Pulls, answers: answers}).explain(ctx); err != nil {
		return err
	}
	return h.restart(ctx, func() error { return nil })
}

// cutShort returns what may be left of a pull that did not come to its end:
// each of its writes is there, or is not, and so is what it has heard of the registry's trouble.
func cutShort(before World, branches []Branch) []World {
	all := []World{before}
	for _, b := range branches {
		for _, after := range []World{b.After, b.Lost} {
			records, proofs, trouble := before, before, before
			records.Node, proofs.Has, trouble.Blamed = after.Node, after.Has, after.Blamed
			for _, w := range []World{records, proofs, trouble, after} {
				if !slices.Contains(all, w) {
					all = append(all, w)
				}
			}
		}
	}
	return all
}

// unwritten is what is left of pulls that moved no name if nothing of what they found out is
// written, although one may have used what another one found out.
func (w World) unwritten(begun World) World {
	lost := w
	for name, was := range begun.Node {
		if w.Node[name].Content != was.Content {
			return w // with what a pull writes, at once
		}
		was.Proofs &= w.Node[name].Proofs // refusals are written at once
		was.Under.Proofs &= w.Node[name].Under.Proofs
		lost.Node[name] = was
	}
	for repo, has := range begun.Has {
		for content := range has {
			lost.Has[repo][content] &= has[content] | known
		}
	}
	return lost
}

// unmarked is what is left where a kill comes between the writes of what a mirror has said in the place of the registry,
// and of the image's use by that.
func (w World) unmarked(begun World) World {
	for name, was := range begun.Node {
		if is := &w.Node[name]; is.Content == was.Content && is.Stale == MirrorFallback {
			is.Stale = was.Stale
		}
	}
	return w
}

// mixed returns what may be left where a kill can come between two writes: names of
// one state, and repository@digest of another.
func mixed(worlds []World) (all []World) {
	for _, w := range worlds {
		for _, other := range worlds {
			w.Has = other.Has
			if !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
	}
	return all
}

// phase tells how far the pulls had come.
func (h *history) phase(answers []answer) phase {
	if !slices.ContainsFunc(answers, func(a answer) bool { return !a.decided }) {
		return afterAll
	}
	at := beforeCheck
	for _, r := range h.reg.requests() {
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
