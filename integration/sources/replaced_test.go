// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestAllowedSourcesOfAnImageReplacedMeanwhile has a pod ask the registry about an image
// that came from it. Before it answers, the image is removed, and a pod of another
// namespace, to which no rule applies, has the same one from a mirror.
func TestAllowedSourcesOfAnImageReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	for what, code := range map[string]int{"answers": http.StatusOK, "fails": http.StatusServiceUnavailable} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a := newAllowing(t)
			a.WriteRules("10.toml", "[[rule]]\nimages = [\"registry.test/**\"]\nnamespaces = [\"strict\"]\nallowed_sources = [\""+a.Registry.Host()+"\"]\n")
			ref := nodetest.Named("app:1")
			a.MustPull(ref, node.Pod("strict", "one"))
			asked, goOn := make(chan struct{}, 10), make(chan struct{})
			a.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodHead {
					asked <- struct{}{}
					<-goOn
					if code != http.StatusOK {
						w.WriteHeader(code)
						return
					}
				}
				next.ServeHTTP(w, r)
			})
			result, mark := make(chan error, 1), a.Mark()
			go func() {
				_, err := a.Pull(ref, node.Pod("strict", "two"))
				result <- err
			}()
			<-asked
			a.Remove(ref)
			a.MustPull(ref, node.Pod("free", "three"))
			nodetest.Want(t, "source meanwhile", a.source(), a.mirror.Host()+"/app:1")
			close(goOn)
			err := <-result
			if code != http.StatusOK {
				nodetest.Want(t, "fails", err != nil, true)
				return
			}
			nodetest.Want(t, "error", err, nil)
			got := a.Decisions(mark, ref)
			nodetest.Want(t, "outcome", got[len(got)-1].Outcome+" "+got[len(got)-1].Reason, "Pulled source")
			nodetest.Eventually(t, "the source is the origin", func() bool { return a.source() == a.Registry.Host()+"/app:1" })
		})
	}
}
