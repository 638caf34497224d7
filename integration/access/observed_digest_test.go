// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const observedRules = nodetest.ObserveDev + "[[rule]]\nimages = [\"**\"]\npolicy = \"IfDigestChanged\"\n"

// A pod of a namespace under mode = "Observe" that pulls by digest, where containerd pulls without its transfer service (EKS'
// discard_unpacked_layers), takes nobody else's proof away.
func TestObservedPullByDigestEndsNoProof(t *testing.T) {
	t.Parallel()
	for _, images := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
		t.Run(images, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t, nodetest.CRIImages(images))
			n.WriteRules("10.toml", observedRules)
			g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
			g.serve(n)
			s := g.scene(t, n, "private/app")
			s.digest = s.push("1", nodetest.Image(1))
			s.wantPull(alice, "Always", s.digest, "Pulled")
			s.waitForWrites()
			s.wantPull(alice, "Never", s.digest, "Present")
			mark := n.Mark()
			if _, err := n.Pull(s.digest, bob.secret(), node.Pod("dev", "pod")); err != nil {
				t.Fatal(err)
			}
			n.Told(mark, s.digest)
			s.waitForWrites()
			s.wantPull(nobody, "Never", s.digest, "Failed")
			s.wantPull(alice, "Never", s.digest, "Present") // she was refused by nobody
		})
	}
}

// Nor does it open the image, while another pod there has too many pulls observed to be noticed.
func TestObservedPullByDigestOpensNothing(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.CRIImages("use_local_image_pull = true"))
	n.WriteRules("10.toml", observedRules)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(n)
	eves := resolvertest.New(t)
	n.Serve("eve.test", eves)
	s := g.scene(t, n, "private/app")
	s.digest = s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.digest, "Pulled")
	s.waitForWrites()
	s.wantPull(nobody, "Never", s.digest, "Failed")
	defer eves.Hang(resolvertest.Manifests)()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pull := func(i int) {
		_, _ = n.Node.Pull(ctx, fmt.Sprintf("eve.test/x%d:1", i), node.Pod("dev", "pod"), node.Hint("verify-timeout", "2m"))
	}
	started := 0
	nodetest.Eventually(t, "as many are observed as can be", func() bool {
		if started < 2*maxObserved { // a busy node has no time to observe each of them
			go pull(started)
			started++
		}
		return askedTwice(eves) >= maxObserved
	})
	mark := n.Mark()
	if _, err := n.Pull(s.digest, bob.secret(), node.Pod("dev", "pod")); err != nil {
		t.Fatal(err)
	}
	if told := n.Told(mark, s.digest); told.Reason != "busy" {
		t.Fatalf("bob's is observed, too: %v", told)
	}
	s.wantPull(nobody, "Never", s.digest, "Failed")
}

// maxObserved is how many pulls are observed at a time.
const maxObserved = 64

// askedTwice returns how many manifests were asked for twice: by containerd's pull, and by who observes it.
func askedTwice(r *resolvertest.Registry) (n int) {
	asked := map[string]int{}
	for _, req := range r.Requests() {
		if asked[req.Path]++; asked[req.Path] == 2 {
			n++
		}
	}
	return n
}

// What is proved while the pull of an observed pod is under way stays, also where nothing was known of the image as that began.
func TestObservedPullByDigestOpensNothingThatIsProvedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, observed := range []string{"never answered", "answered"} {
		t.Run(observed, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t, nodetest.CRIImages("use_local_image_pull = true"))
			n.WriteRules("10.toml", observedRules)
			g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
			g.serve(n)
			s := g.scene(t, n, "private/app")
			s.digest = s.push("1", nodetest.Image(1))
			release := make(chan struct{})
			undo := g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				user, _, _ := r.BasicAuth()
				if user == bob.user && (observed == "never answered" || r.Method == http.MethodGet) {
					select {
					case <-release:
					case <-r.Context().Done():
					}
				}
				next.ServeHTTP(w, r)
			})
			defer undo()
			bobs := make(chan error, 1)
			go func() {
				_, err := n.Node.Pull(t.Context(), s.digest, bob.secret(), node.Pod("dev", "pod"), node.Hint("verify-timeout", "2s"))
				bobs <- err
			}()
			time.Sleep(time.Second) // it begins before hers
			s.wantPull(alice, "Always", s.digest, "Pulled")
			s.waitForWrites()
			s.wantPull(alice, "Never", s.digest, "Present")
			s.wantPull(nobody, "Never", s.digest, "Failed")
			time.Sleep(4 * time.Second) // the check beside bob's pull gives up
			mark := n.Mark()
			close(release)
			if err := <-bobs; err != nil {
				t.Fatal(err)
			}
			n.Told(mark, s.digest)
			s.waitForWrites()
			s.wantPull(alice, "Never", s.digest, "Present")
			s.wantPull(nobody, "Never", s.digest, "Failed")
		})
	}
}
