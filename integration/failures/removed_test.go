// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestRemovedWhileItIsCompared removes an image while its bytes are compared with those of
// an allowed host, or gives its name to another image: no success has what is gone.
func TestRemovedWhileItIsCompared(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.WriteRules("10.toml", "[[rule]]\nimages = ['**']\nallowed_sources = ['"+n.Registry.Host()+"']\nverify_timeout = '1m'\n")
	for what, gone := range map[string]func(ref string){
		"removed":  n.Remove,
		"replaced": func(ref string) { n.ImportOver(ref, nodetest.Image(3)) },
	} {
		ref := nodetest.Named(what + ":1")
		pushed := n.Push(what+":1", nodetest.Image(1))
		n.Import(ref, nodetest.Image(1))
		asked, goOn := make(chan struct{}, 100), make(chan struct{})
		undo := n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				asked <- struct{}{}
				<-goOn
			}
			next.ServeHTTP(w, r)
		})
		mark := n.Mark()
		result := begin(n, ref)
		<-asked
		gone(ref)
		close(goOn)
		nodetest.Want(t, what, <-result, nil)
		undo()
		nodetest.Want(t, what+": outcome", n.Decision(mark, ref).Outcome, "Pulled")
		nodetest.Want(t, what+": target", n.Target(ref), pushed)
		n.WantRunnable(ref)
	}
}
