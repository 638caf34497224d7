// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"

	"github.com/pullwarden/pullwarden/internal/registryname"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

const (
	// maxBackground bounds the pulls that go on in the background at the same time: they
	// share the node's disk and network with those that pods wait for. Each registry that
	// the operator has named has so many places, and all others have so many together. A
	// request beyond the bound waits for its pull, as without a deadline, until another one
	// has ended.
	maxBackground = 8
	// maxShare bounds those of them that pods of one namespace take, and those of one
	// registry that only references have named.
	maxShare = maxBackground / 2
)

// place is that of a pull in the background, and says of whose places it is one.
type place struct {
	registry string // its canonical name
	// named says that the operator has named the registry. Tenants can name any number of
	// others.
	named     bool
	namespace store.Fingerprint // of the pod; "" where that is not known
}

// place is the one for a pull of the task. The operator names a registry by the rule that
// matched, or by a hosts.toml.
func (t *task) place(session resolver.Session) place {
	return place{
		registry:  registryOf(t.Repository),
		named:     t.directives.NamesRegistry(t.Image) || session.Named(),
		namespace: t.PodNamespace,
	}
}

// registryOf returns the canonical name of the registry of a repository.
func registryOf(repository string) string {
	registry, _, _ := strings.Cut(repository, "/")
	return registryname.Canonical(registry)
}

// sharesWith reports whether two pulls take the same places.
func (p place) sharesWith(other place) bool {
	return p.named == other.named && (!p.named || p.registry == other.registry)
}

// hasRoom reports whether a place is free. It is to be called with the lock.
func (s *sharedPulls) hasRoom(in place) bool {
	var all, ofNamespace, ofRegistry int
	for p := range s.all {
		if !p.kept || !in.sharesWith(p.place) {
			continue
		}
		all++
		if p.place.namespace == in.namespace {
			ofNamespace++
		}
		if p.place.registry == in.registry {
			ofRegistry++
		}
	}
	return all < maxBackground && ofNamespace < maxShare && (in.named || ofRegistry < maxShare)
}
