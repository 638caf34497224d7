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
	// earlier are the sources of the documents that the pull has not fetched, where its own
	// repository has delivered them before; zero = their labels say where they came from.
	earlier provenance.Provenance
	// unsure says that one of those which have no labels may have come from nobody knows where.
	unsure bool
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

// document returns the sources of a document whose labels say the others. To a pull with documents
// of its own they count for nothing: what it has not fetched had come from its source before
// containerd was killed, and others may have delivered the same.
func (d *deliveries) document(document digest.Digest, labelled provenance.Provenance) provenance.Provenance {
	p, fetched := d.of(document)
	switch {
	case fetched:
		return p
	case d.servedBy != nil:
		return d.servedBy(document)
	case d.earlier.Known() && (labelled.Known() || !d.unsure):
		return d.earlier
	}
	return labelled
}
