// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// rolledBack is a site where app:1 was v1, and is v2 now, whose layers hang.
type rolledBack struct {
	site
	ref     string
	v1      digest.Digest
	release []func()
	begun   []<-chan error
}

func newRolledBack(t *testing.T, section string) *rolledBack {
	t.Helper()
	r := &rolledBack{site: newSite(t, section), ref: nodetest.Named("app:1")}
	r.v1 = digest.Digest(r.both("app:1", 1))
	r.wantPull(r.ref, "Pulled absent")
	r.both("app:1", 2)
	r.mirror.Forget()
	r.Registry.Forget()
	for _, reg := range []*resolvertest.Registry{r.mirror, r.Registry} {
		release := reg.Hang(resolvertest.Blobs)
		t.Cleanup(release)
		r.release = append(r.release, release)
	}
	return r
}

// begin begins a pull that asks a registry.
func (r *rolledBack) begin(hints ...string) {
	ended := make(chan error, 1)
	go func() {
		_, err := r.Pull(r.ref, node.Hint(append(hints, "max-age", "0s")...))
		ended <- err
	}()
	r.begun = append(r.begun, ended)
}

// rollBack sets the tag back, which a pod is told, and uses.
func (r *rolledBack) rollBack() {
	r.T.Helper()
	r.Tag("app", "1", r.v1)
	r.wantPull(r.ref, "Unchanged same_digest", node.Hint("max-age", "0s"))
}

// wantLastWord lets the layers come, and holds that a pod with max_age then has the registry's last word.
func (r *rolledBack) wantLastWord(meanwhile func()) {
	r.T.Helper()
	for _, release := range r.release {
		release()
	}
	for _, ended := range r.begun {
		if err := <-ended; err != nil {
			r.T.Log(err)
		}
	}
	meanwhile()
	mark := r.Mark()
	r.MustPull(r.ref)
	if d := r.Decision(mark, r.ref); d.Digest != r.v1.String() {
		r.T.Errorf("the registry has said v1 last: %s (%s) with v2, %v", d.Outcome, d.Reason, r.Labels(r.ref))
	}
}

// TestOutdatedAnswerOfWhoWaited holds that who has waited for its turn with an answer which the registry has taken back since
// makes no check of that for the image which a pod that asks mirrors has brought.
func TestOutdatedAnswerOfWhoWaited(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			t.Parallel()
			r := newRolledBack(t, "resolve_from = \"Origin\"\nmax_age = \"1h\"\n")
			r.begin("resolve-from", "Mirrors")
			nodetest.Eventually(t, "v2 is pulled from the mirror", func() bool {
				return r.mirror.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)) > 0
			})
			if waits {
				before := r.Registry.Count(resolvertest.Of("", resolvertest.Manifests))
				r.begin()
				nodetest.Eventually(t, "the registry has said v2", func() bool {
					return r.Registry.Count(resolvertest.Of("", resolvertest.Manifests)) > before
				})
				time.Sleep(500 * time.Millisecond) // until it waits
			}
			r.rollBack()
			r.wantLastWord(func() {})
		})
	}
}

// TestOutdatedAnswerOfWhoJoined holds the same of those who have joined a pull, beside one by a mirror's word in the place of
// the registry, which was down meanwhile.
func TestOutdatedAnswerOfWhoJoined(t *testing.T) {
	t.Parallel()
	for _, waiting := range []int{0, 6} {
		t.Run(fmt.Sprint(waiting), func(t *testing.T) {
			t.Parallel()
			r := newRolledBack(t, originThenMirrors+"pull_deadline = \"10m\"\nmax_age = \"1h\"\n")
			r.begin()
			nodetest.Eventually(t, "v2 is pulled", func() bool {
				return r.mirror.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs))+r.Registry.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)) > 0
			})
			for range waiting {
				r.begin()
				time.Sleep(100 * time.Millisecond)
			}
			r.rollBack()
			undo := r.Registry.Script(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			for range 2 {
				r.begin()
				time.Sleep(400 * time.Millisecond)
			}
			r.wantLastWord(func() {
				undo()
				r.forgetTrouble()
			})
		})
	}
}
