// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// Caller is the fingerprint of a caller's credentials. Whose a proof is says the holder, and whose a
// check is the asker.
type Caller = store.Fingerprint

// Request is one request for an image.
type Request struct {
	// Subject is what rules and hints are matched against.
	policy.Subject
	// Pod is the name of the pod, for logs; empty where it is not known.
	Pod string
	// Name is the normalised reference, which is also the record's name.
	Name string
	// Credentials of the caller; nil for none.
	Credentials resolver.Credentials
	// Caller stands for the credentials. Empty means that they cannot be told
	// apart from others: they prove nothing, and no proof is theirs.
	Caller Caller
	// NodeCredentials stand for those of the node's own configuration where hosts are shown these, for
	// want of the caller's, who is store.Anonymous then. Empty means that they are not.
	NodeCredentials store.Fingerprint
	// PodNamespace stands for the namespace of the pod. Empty means that the
	// request did not say it: where proofs are a namespace's, none is its own.
	PodNamespace store.Fingerprint
	// CredentialHost is the host that the credentials are for; empty for any.
	CredentialHost string
	// Snapshotter that the container will use.
	Snapshotter string
	// Started says that the pod was told that there is no image, under govern =
	// "Starts", so that its kubelet pulls.
	Started bool
	// SourcesLimit is why no rule with allowed_sources can be kept with that
	// snapshotter; nil where it can.
	SourcesLimit error
	Runtime      Runtime
}

// Runtime is containerd, for one request.
type Runtime interface {
	// ImageID is the ID of the image that the name has now; "" when CRI knows
	// no such image.
	ImageID(ctx context.Context) (string, error)
	// Pull carries out the plan and returns the image ID.
	Pull(ctx context.Context, plan *transfer.Plan) (imageID string, err error)
	// Complete makes everything that a pull makes besides the content: the
	// snapshot and the names of an image whose content is there. It asks no
	// registry, so that the plan has no source.
	Complete(ctx context.Context, target ocispec.Descriptor, plan *transfer.Plan) error
	// StockPull has containerd pull by itself, as it would without pullwarden. The
	// error is containerd's own.
	StockPull(ctx context.Context) error
}

// task is a request with the directives that apply to it. It does not change.
type task struct {
	Request
	directives policy.Effective
	answered   func() // see resolver.Query; nil = nobody is told
	insists    bool   // its answer counts, whatever others have been told since

	heard // before the step that it is for
}

// byDigest reports whether the reference names a digest, which cannot change.
func (t *task) byDigest() bool { return t.Digest != "" }

// asksAlways reports whether a registry is asked whatever image the node has.
func (t *task) asksAlways() bool { return t.directives.AsksAlways() && !t.byDigest() }

// restricted reports whether the image must come from some hosts only.
func (t *task) restricted() bool { return !t.directives.AllowedSources.All() }

// canonical is repository@digest.
func (t *task) canonical(target digest.Digest) string {
	return t.Repository + "@" + target.String()
}

// names are the records that keep the state of an image: that of the requested
// reference and that of its repository@digest.
func (t *task) names(target digest.Digest) []string {
	canonical := t.canonical(target)
	if canonical == t.Name {
		return []string{canonical}
	}
	return []string{t.Name, canonical}
}

// asker stands for the credentials that hosts are shown: what they did for one asker they did for no other. It
// is "" where it cannot be told apart from others. One for whom they are shown the node's and one who has none at
// all are the same caller.
func (t *task) asker() store.Fingerprint { return cmp.Or(t.NodeCredentials, t.Caller) }

// checkKey is what requests must have in common to share one check. The asker
// is part of it: nobody rides on another's credentials. So is the namespace of the pod:
// what a registry says to one tenant is no answer to another, and takes nothing from it.
type checkKey struct {
	name           string
	asker          store.Fingerprint
	podNamespace   store.Fingerprint
	credentialHost string // the fingerprint does not tell it apart
	snapshotter    string
	directives     policy.Directives
	originAnswered bool      // what proofs are worth differs
	elsewhere      bool      // and what an open image is
	overdue        time.Time // of who begins anew
}

func (t *task) checkKey() checkKey {
	return checkKey{
		name:           t.Name,
		asker:          t.asker(),
		podNamespace:   t.PodNamespace,
		credentialHost: t.CredentialHost,
		snapshotter:    t.Snapshotter,
		directives:     t.directives.Directives,
		originAnswered: t.originAnswered,
		elsewhere:      t.elsewhere,
	}
}
