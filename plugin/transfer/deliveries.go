// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// deliveries are the sources of the content that one pull has fetched, also of that which was
// there before, whose labels name others. The zero value is ready. Safe for concurrent use.
type deliveries struct {
	all sync.Map
	// servedBy tells who has served a document to a pull with documents of its own, also beside
	// what was fetched; nil for other pulls.
	servedBy func(digest.Digest) provenance.Provenance
}

// add adds content whose source is known.
func (d *deliveries) add(content digest.Digest, p provenance.Provenance) {
	if p.Known() {
		d.all.Store(content, p)
	}
}

// of returns the sources of content that the pull has fetched.
func (d *deliveries) of(content digest.Digest) (p provenance.Provenance, ok bool) {
	v, ok := d.all.Load(content)
	if !ok {
		return provenance.Provenance{}, false
	}
	return v.(provenance.Provenance), true
}

// hosts are all that have served what the pull has fetched.
func (d *deliveries) hosts() (all provenance.Provenance) {
	d.all.Range(func(_, p any) bool {
		all = all.Add(p.(provenance.Provenance))
		return true
	})
	all.Reference = ""
	slices.Sort(all.Hosts)
	return all
}

// document returns the sources of a document, and whether the pull's own source has delivered it. To a pull with
// documents of its own that is so with all of them: what it has not fetched had come from its source before
// containerd was killed, and others may have delivered the same.
func (d *deliveries) document(document digest.Digest) (p provenance.Provenance, ok bool) {
	if p, ok = d.of(document); ok || d.servedBy == nil {
		return p, ok
	}
	return d.servedBy(document), true
}
