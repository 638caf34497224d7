// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"archive/tar"
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// tenant is whoever pulls with a pull secret; the zero value has none.
type tenant struct{ user, password string }

// The tenants. The registry knows alice, bob and eve, and lets alice and bob
// have what is private; in public repositories it lets everybody.
var (
	alice  = tenant{"alice", `Pa55 of alice: %&+/=?"\<é>`}
	bob    = tenant{"bob", "Pa55-of-bob-0123456789"}
	eve    = tenant{"eve", "Pa55-of-eve-0123456789"} // may have nothing
	wrong  = tenant{"alice", "not-the-password-of-alice"}
	nobody = tenant{}
)

// secret sends the tenant's credentials, as the kubelet does.
func (t tenant) secret() pullOption {
	if t == nobody {
		return func(*runtimeapi.PullImageRequest) {}
	}
	return credentials(t.user, t.password)
}

func (t tenant) String() string {
	switch t {
	case nobody:
		return "nobody"
	case wrong:
		return "a wrong secret"
	}
	return t.user
}

// auth sets the whole AuthConfig of a request.
func auth(a *runtimeapi.AuthConfig) pullOption {
	return func(r *runtimeapi.PullImageRequest) { r.Auth = a }
}

// guarded is a registry with tenants, under a name of the node's.
type guarded struct {
	*resolvertest.Registry
	name string

	mu     sync.Mutex
	denied map[string]bool // "user repository"
}

// guard asks the registry's visitors who they are.
type guard func(users map[string]string) resolvertest.Option

// newGuarded starts a registry. More users than the tenants may have what is
// private, too.
func newGuarded(t testing.TB, kind guard, name string, more ...tenant) *guarded {
	t.Helper()
	users := map[string]string{}
	for _, u := range append([]tenant{alice, bob, eve}, more...) {
		users[u.user] = u.password
	}
	g := &guarded{Registry: resolvertest.New(t, kind(users)), name: name, denied: map[string]bool{}}
	g.Allow(func(user, repository string) bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.denied[user+" "+repository] {
			return false
		}
		return strings.HasPrefix(repository, "public/") || user != "" && user != eve.user
	})
	return g
}

// deny shuts a user out of a repository, or lets it in again. The tokens that
// are out are worth nothing any more.
func (g *guarded) deny(user, repository string, denied bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.denied[user+" "+repository] = denied
	g.RevokeTokens()
}

// scene is one repository of a guarded registry on a node, in one test.
type scene struct {
	*daemon
	g    *guarded
	repo string

	// Where the story is about one image: what makes it, and its reference by
	// digest.
	seed   int64
	digest string
}

// serve makes the registry known to the daemon under its name.
func (g *guarded) serve(d *daemon) { d.origin(g.name, g.Registry) }

// scene gives a test a repository of its own.
func (g *guarded) scene(t testing.TB, d *daemon, repo string) *scene {
	t.Helper()
	own := *d
	own.t = t
	return &scene{daemon: &own, g: g, repo: repo}
}

// ref is a reference to the repository, by ":tag" or "@digest".
func (s *scene) ref(object string) string { return s.g.name + "/" + s.repo + object }

// sibling is another repository with the same image.
func (s *scene) sibling(suffix string) *scene {
	s.t.Helper()
	other := *s
	other.repo += suffix
	other.digest = other.push("1", image(s.seed))
	return &other
}

// inPublic returns a reference to the same image in a public repository.
func (s *scene) inPublic() string {
	s.t.Helper()
	other := *s
	other.repo = "public/" + s.repo
	other.push("1", image(s.seed))
	return other.ref(":1")
}

// elsewhere is a name of no registry, for what is preloaded.
func (s *scene) elsewhere() string { return "preloaded." + s.g.name + "/" + s.repo + ":1" }

// push pushes an image and returns the reference by its digest.
func (s *scene) push(tag string, img v1.Image) (byDigest string) {
	s.t.Helper()
	return s.ref("@" + s.daemon.push(s.g.Registry, s.repo+":"+tag, img).String())
}

// up ends all troubles of the registry.
func (s *scene) up() {
	s.t.Helper()
	if err := s.g.Restore(); err != nil {
		s.t.Fatal(err)
	}
}

// ask pulls and holds what comes out. What is reused without asking must cost
// no request, and a check nothing but HEADs.
func (s *scene) ask(who tenant, policy, ref, outcome string, opts ...pullOption) error {
	s.t.Helper()
	mark := s.mark()
	s.g.Forget()
	opts = append([]pullOption{who.secret(), hint("policy", policy)}, opts...)
	id, err := s.pull(ref, opts...)
	got := s.decision(mark, ref)
	if outcome == "~" { // whatever works
		outcome = got.outcome
	}
	if got.outcome != outcome || (err != nil) != (outcome == "Failed") || (id == "") != (err != nil) {
		s.t.Errorf("%v gets %s by %s: %s (%s, access %v), %v; want %s", who, ref, policy, got.outcome, got.reason, got.entry["access"], err, outcome)
	}
	downloads := s.g.Count(resolvertest.Of("GET", resolvertest.Manifests)) + s.g.Count(resolvertest.Of("GET", resolvertest.Blobs))
	switch all := len(s.g.Requests()); outcome {
	case "Present", "Fresh":
		want(s.t, "requests for what needs none", all, 0)
	case "Unchanged":
		want(s.t, "downloads for a check", downloads, 0)
	}
	return err
}

// proofs lists the fingerprints on a record.
func (d *daemon) proofs(ref string) []string {
	d.t.Helper()
	var all []string
	for label := range d.labels(ref) {
		if f, ok := strings.CutPrefix(label, "access."); ok {
			all = append(all, f)
		}
	}
	slices.Sort(all)
	return all
}

// setProofs changes all proofs on a record.
func (d *daemon) setProofs(ref string, change func(at string) string) {
	d.t.Helper()
	changed := map[string]string{}
	for label, value := range d.labels(ref) {
		if strings.HasPrefix(label, "access.") {
			changed[label] = change(value)
		}
	}
	if len(changed) == 0 {
		d.fatal("%s has no proofs", ref)
	}
	d.setLabels(ref, changed)
}

// preload imports an image under that name, as an operator does.
func (d *daemon) preload(ref string, img v1.Image) {
	d.t.Helper()
	dir := d.t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = path.AppendImage(img, layout.WithAnnotations(map[string]string{"io.containerd.image.name": ref}))
	}
	if err != nil {
		d.fatal("write %s: %v", ref, err)
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		d.fatal("write %s: %v", ref, err)
	}
	if err := w.Close(); err != nil {
		d.fatal("write %s: %v", ref, err)
	}
	if _, err := d.client.Import(d.t.Context(), &archive); err != nil {
		d.fatal("import %s: %v", ref, err)
	}
	eventually(d.t, "CRI knows what was imported", func() bool { return d.imageStatus(ref).GetImage() != nil })
	if own := d.labels(ref); len(own) > 0 {
		d.t.Errorf("an imported image has labels: %v", slices.Sorted(maps.Keys(own)))
	}
}

// settle waits until what the store writes behind is written, so that labels
// which a test sets are not set back: it writes in order, and this is another
// image, which is checked later.
func (s *scene) settle() {
	s.t.Helper()
	other := *s
	other.repo = "private/settle"
	other.push("1", image(1))
	ref, never := other.ref(":1"), ago(24*time.Hour)
	other.mustPull(ref, alice.secret())
	other.setLabels(ref, map[string]string{"verified-at": never})
	other.mustPull(ref, alice.secret(), hint("policy", "Always"))
	eventually(s.t, "the check is written", func() bool { return other.labels(ref)["verified-at"] != never })
}

// ago is a label's time.
func ago(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
