// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
	"github.com/pullwarden/pullwarden/store/content"
)

const (
	repository = "registry.test/app"
	name       = repository + ":1"

	alice store.Fingerprint = "alice"
	bob   store.Fingerprint = "bob"
)

var (
	now     = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	first   = image("first")
	second  = image("second")
	errTest = errors.New("scripted")
	// errQuarantined is that of a manifest which the registry refuses.
	errQuarantined = errors.New("scripted: in quarantine")
)

func image(s string) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(s), Size: int64(len(s))}
}

// imageID is what the config of a fake image digests to.
func imageID(target ocispec.Descriptor) digest.Digest {
	return digest.FromString("config of " + target.Digest.String())
}

// node is a fake of what the engine sees of a node and a registry. Its fields
// are what a test scripts and reads.
type node struct {
	mu sync.Mutex

	// What the node has; nil for no image.
	record     *store.Record
	unrunnable bool
	packed     bool          // has the layers and not the snapshot
	manifest   digest.Digest // that runs, in an index; "" where each image is one
	imageIDErr error
	onLook     func(ctx context.Context)
	lag        int // looks after which CRI hears of the record; below 0 for never

	// What the registry says.
	remote      ocispec.Descriptor
	checkFails  failure.Class
	hangs       bool // the check does not end by itself
	pullFails   failure.Class
	pullErr     error // no registry at fault
	verifyFails bool  // the bytes on the node differ
	openErr     error
	anonymous   bool                               // asks for no credentials
	byNode      bool                               // is shown the node's
	guarded     bool                               // asks for some in a pull
	nodeGuarded bool                               // is shown the node's in a pull alone
	named       bool                               // has a hosts.toml
	inNeed      bool                               // a mirror answers in the place of the registry
	forgotten   bool                               // does not have old digests any more
	quarantined bool                               // the registry refuses the cached manifest that runs, in a pull
	stalls      bool                               // the manifest that runs does not come, in a pull
	hears       resolver.Heard                     // in a pull
	imposes     bool                               // a registry that has the digest of what it does not have
	refuses     atomic.Pointer[[]resolver.Attempt] // content in a pull, that another host has
	onVerify    func()                             // while content is compared
	onRead      func() error                       // of the manifest that runs, in a pull
	onOpen      func()
	onCheck     func()
	onPull      func()
	pullTakes   time.Duration // unless its context ends
	stockErr    error         // of containerd's own pull
	onStock     func()
	onStore     func(*store.State)  // adds sources, as plugin/transfer does
	unpacked    []string            // hosts of what the snapshotter has; "?" for none that is known
	converts    *ocispec.Descriptor // what is stored in place of what is pulled

	// What happened.
	checks, pulls   int
	stockPulls      int
	query           resolver.Query
	timeout         time.Duration
	references      []string
	verifiedContent []digest.Digest
	verifiedLayers  []digest.Digest
	lacksLayers     bool // pulls do not fetch all layers
	manifestsRead   int
	forgot          int // sessions that were told to forget the manifest of their check
	completed       []digest.Digest
	proved          []store.Fingerprint
	revoked         []store.Fingerprint
	used            []store.Fingerprint
	stale           map[string]store.Stale
	verified        map[string]store.Verified
	mirrored        map[string]store.Proof
	outcomes        []Outcome
}

func (n *node) engine(rules string) *Engine {
	parsed, err := policy.ParseRules("rules.toml", []byte(rules))
	if err != nil {
		panic(err)
	}
	inForce := policy.NewRules(policy.Overrides{}, parsed)
	n.stale, n.verified = map[string]store.Stale{}, map[string]store.Verified{}
	n.mirrored = map[string]store.Proof{}
	return &Engine{
		Rules:    func(context.Context) (*policy.Rules, error) { return inForce, nil },
		Records:  n,
		Content:  n,
		Sources:  n,
		Marks:    n,
		Proofs:   n,
		Registry: n,
		Observe: func(_ context.Context, o Outcome) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.outcomes = append(n.outcomes, o)
		},
		Now: func() time.Time { return now },
	}
}

func (n *node) request(annotations map[string]string) Request {
	return Request{
		Subject: policy.Subject{Image: policy.Image{Repository: repository, Tag: "1"}, Annotations: annotations},
		Name:    name,
		Caller:  alice,
		Runtime: n,
	}
}

// cachedImage is an image that alice has proved access to by a check; it is open
// where there was none.
func cachedImage(target ocispec.Descriptor, checked time.Time) *store.Record {
	r := &store.Record{Name: name, Target: target, State: store.State{HasLayers: true}}
	if !checked.IsZero() {
		r.Verified = store.Verified{Digest: target.Digest, At: checked, By: "registry.test"}
		r.Restricted, r.Access = true, map[store.Fingerprint]store.Proof{alice: {At: checked, By: "registry.test"}}
	}
	return r
}

// Records, Content, Marks and Proofs.

func (n *node) Get(_ context.Context, _ string) (store.Record, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.record == nil {
		return store.Record{}, errdefs.ErrNotFound
	}
	return *n.record, nil
}

func (n *node) Runnable(_ context.Context, target ocispec.Descriptor, _ string) (content.Image, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unrunnable {
		return content.Image{}, errTest
	}
	return content.Image{ID: imageID(target), Manifest: cmp.Or(n.manifest, target.Digest), Size: target.Size, Unpacked: !n.packed}, nil
}

func (n *node) MarkVerified(_ context.Context, _ digest.Digest, v store.Verified, proved store.Proved, names ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		n.verified[name] = v
		n.proved = append(n.proved, proved.Holders()...)
	}
}

func (n *node) VerifyContent(_ context.Context, target ocispec.Descriptor, _ transfer.Fetcher) error {
	if n.onVerify != nil {
		n.onVerify()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.verifiedContent = append(n.verifiedContent, target.Digest)
	if n.verifyFails || n.pullFails != failure.None {
		return errTest
	}
	return nil
}

func (n *node) VerifyManifest(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error {
	if delivered(cmp.Or(n.manifest, target.Digest)) {
		return nil
	}
	if n.stalls {
		<-ctx.Done()
		return ctx.Err()
	}
	if n.onRead != nil {
		if err := n.onRead(); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.manifestsRead++
	if n.quarantined {
		return errQuarantined
	}
	from.(*fakeFetcher).read = true
	return nil
}

func (n *node) VerifyPossession(_ context.Context, _ ocispec.Descriptor, _ transfer.Fetcher, delivered func(digest.Digest) bool) error {
	if n.imposes && !delivered("") {
		return errTest
	}
	return nil
}

func (n *node) Used(_ context.Context, f store.Fingerprint, _ time.Time, _ ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.used = append(n.used, f)
}

func (n *node) Given(context.Context, store.State, ...string) {}

func (n *node) Revoke(_ context.Context, repo string, holders []store.Fingerprint, refusals ...store.Refusal) error {
	if repo != repository {
		return errTest
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.revoked = append(n.revoked, holders...)
	if n.record != nil {
		for _, proofs := range []*map[store.Fingerprint]store.Proof{&n.record.Access, &n.record.Earlier} {
			*proofs = maps.Clone(*proofs)
			maps.DeleteFunc(*proofs, func(f store.Fingerprint, p store.Proof) bool {
				spared := slices.ContainsFunc(refusals, func(r store.Refusal) bool { return r.Only != (store.Proof{}) && r.Only != p })
				return slices.Contains(holders, f) && !spared
			})
		}
	}
	return nil
}

func (n *node) WriteProofs(_ context.Context, write func() error) error { return write() }

func (n *node) ShareProofs(context.Context, digest.Digest, string, string) error { return nil }

func (n *node) MarkStale(_ context.Context, _ digest.Digest, s store.Stale, names ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		n.stale[name] = s
	}
}

func (n *node) MarkMirrored(_ context.Context, _ digest.Digest, v store.Verified, proved store.Proved, names ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		n.mirrored[name] = store.Proof{At: v.At, By: v.By}
		n.proved = append(n.proved, proved.Holders()...)
	}
}

func (n *node) MarkPulled(_ context.Context, target digest.Digest, state func() store.State, names ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.record != nil && n.record.Target.Digest == target {
		n.record.State = laidOver(n.record.State, state())
	}
}
