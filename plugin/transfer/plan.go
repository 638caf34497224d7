// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/isolation"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// Plan says how one pull is to be carried out. It belongs to that pull alone.
type Plan struct {
	// Reference is the normalised reference that is pulled.
	Reference string
	// Source is what is pulled from. Its Resolve returns the digest that was
	// compared. Where it is a SourceReporter, the sources of the pull are
	// tracked. Where it is a ConfigChecker, it is asked about the config.
	Source transfer.ImageFetcher
	// Scope is that of the source: unfinished downloads, and layers that are being
	// unpacked, are shared with pulls of the same scope only. The zero value is for
	// pulls that the node makes for itself, of images that no tenant chooses.
	Scope isolation.Scope
	// OwnDocuments says that the source has not shown yet that it has the image, or has it for
	// this caller: it has to deliver the index, the manifest and the config, also where they are
	// on the node.
	OwnDocuments bool
	// Verify is called once, when the content is there and before there is any
	// record of it. Its error ends the pull; nil accepts everything.
	Verify func(ctx context.Context, target ocispec.Descriptor) error
	// Compare is called once after that, with the sources that the record of Reference is to
	// name, and returns those from which it has taken all of the image once more, which are named
	// in their place; without a reference where it has compared nothing. Where HasLayers is not set, it makes sure that the source has
	// the layers that this pull has not fetched, as delivered reports, and returns the hosts that have shown that, which are
	// named beside the others. Its error ends the pull; nil compares
	// nothing.
	Compare func(ctx context.Context, sources store.State, delivered func(digest.Digest) bool) (provenance.Provenance, error)
	// State returns the state that a record gets together with its new target.
	// It is called for each record, once the content is there, with the digest
	// that is stored and the record's state from before, which is zero when
	// the record pointed at another digest, or when its labels were written for
	// another record. Known sources of the content replace those of the state.
	State func(target digest.Digest, before store.State) store.State
	// Write runs the write of the records, in which State is called, and returns its
	// error; nil runs it at once.
	Write func(ctx context.Context, write func() error) error
}

// ConfigChecker is a source that knows the secrets of its pull.
type ConfigChecker interface {
	// CheckConfig returns an error for the config of an image of which CRI would tell a secret.
	CheckConfig(config []byte) error
}
