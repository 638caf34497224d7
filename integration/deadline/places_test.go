// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestSlowRegistriesOfATenant holds that a tenant whose registries trickle, by any number of
// names and for pods of any number of namespaces, takes the deadline from nobody whose
// registry the operator has named.
func TestSlowRegistriesOfATenant(t *testing.T) {
	t.Parallel()
	s := newScene(t, nodetest.OpenToAll(t), atOnce)
	slow := nodetest.OpenToAll(t)
	s.WriteHosts("_default", fmt.Sprintf("[host.%q]\n", slow.URL()))
	s.PushTo(slow, "app:1", nodetest.Image(3))
	var refs []string
	for i := range 8 {
		refs = append(refs, fmt.Sprintf("tenant-%d.test/app:1", i))
		s.MustPull(refs[i])
	}
	s.PushTo(slow, "app:1", nodetest.Image(4))
	t.Cleanup(slow.Script(trickleBlobs))
	for i, ref := range refs {
		mark := s.Mark()
		s.MustPull(ref, node.Pod(fmt.Sprintf("tenant-%d", i), "pod"))
		nodetest.Want(t, ref, s.Decision(mark, ref).Reason, "pull_deadline")
	}
	mark := s.Mark()
	s.wantCached()
	s.release()
	s.wantNew(mark)
}

// trickleBlobs sends a byte of each blob now and then, as long as somebody waits for it.
func trickleBlobs(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
		next.ServeHTTP(w, r)
		return
	}
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for http.NewResponseController(w).Flush() == nil {
		select {
		case <-every.C:
			_, _ = w.Write([]byte{'{'})
		case <-r.Context().Done():
			return
		}
	}
}
