// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// scene is one repository of a guarded registry on a node, in one test.
type scene struct {
	*nodetest.Node
	g    *guarded
	repo string

	// Where the story is about one image: what makes it, and its reference by
	// digest.
	seed   int64
	digest string
}

// ref is a reference to the repository, by ":tag" or "@digest".
func (s *scene) ref(object string) string { return s.g.name + "/" + s.repo + object }

// sibling is another repository with the same image.
func (s *scene) sibling(suffix string) *scene {
	s.T.Helper()
	other := *s
	other.repo += suffix
	other.digest = other.push("1", nodetest.Image(s.seed))
	return &other
}

// inPublic returns a reference to the same image in a public repository.
func (s *scene) inPublic() string {
	s.T.Helper()
	other := *s
	other.repo = "public/" + s.repo
	other.push("1", nodetest.Image(s.seed))
	return other.ref(":1")
}

// elsewhere is a name of no registry, for what is preloaded.
func (s *scene) elsewhere() string { return "preloaded." + s.g.name + "/" + s.repo + ":1" }

// push pushes an image and returns the reference by its digest.
func (s *scene) push(tag string, img v1.Image) (byDigest string) {
	s.T.Helper()
	return s.ref("@" + s.Push(s.repo+":"+tag, img).String())
}

// wantPull pulls and holds what comes out; "~" is any success. Reuse without a
// check must cost no request, and a check no content. The error is the pull's.
func (s *scene) wantPull(who caller, policy, ref, outcome string, opts ...node.PullOption) error {
	s.T.Helper()
	mark := s.Mark()
	s.g.Forget()
	opts = append([]node.PullOption{who.secret(), node.Hint("policy", policy)}, opts...)
	id, err := s.Pull(ref, opts...)
	got := s.Decision(mark, ref)
	if outcome == "~" {
		outcome = got.Outcome
	}
	if got.Outcome != outcome || (err != nil) != (outcome == "Failed") || (id == "") != (err != nil) {
		s.T.Errorf("%v gets %s by %s: %s (%s, access %v), %v; want %s", who, ref, policy, got.Outcome, got.Reason, got.Access, err, outcome)
	}
	downloads := s.g.Count(resolvertest.Of("GET", resolvertest.Blobs))
	switch all := s.g.Count(resolvertest.NoProbe); outcome {
	case "Present", "Fresh":
		nodetest.Want(s.T, "requests for what needs none", all, 0)
	case "Unchanged":
		nodetest.Want(s.T, "downloads for a check", downloads, 0)
	}
	return err
}

// proofs lists the fingerprints on a record.
func (s *scene) proofs(ref string) []string {
	s.T.Helper()
	var all []string
	for label := range s.Labels(ref) {
		if f, ok := strings.CutPrefix(label, "access."); ok {
			all = append(all, f)
		}
	}
	slices.Sort(all)
	return all
}

// setProofs changes all proofs on a record.
func (s *scene) setProofs(ref string, change func(at string) string) {
	s.T.Helper()
	changed := map[string]string{}
	for label, value := range s.Labels(ref) {
		if strings.HasPrefix(label, "access.") {
			changed[label] = change(value)
		}
	}
	if len(changed) == 0 {
		s.T.Fatalf("%s has no proofs", ref)
	}
	s.SetLabels(ref, changed)
}

// waitForWrites waits until what the store writes behind is written, by another image of
// the registry.
func (s *scene) waitForWrites() {
	s.T.Helper()
	other := *s
	other.repo = "private/writes"
	other.push("1", nodetest.Image(1))
	s.WaitForWrites(other.ref(":1"), alice.secret())
}

// ago is a label's time.
func ago(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
