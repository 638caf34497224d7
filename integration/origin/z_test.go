package origin

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestARefusalThatAPrefetchMet(t *testing.T) {
	t.Parallel()
	for what, later := range map[string]int{"503": 503, "429": 429} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			origin, mirror := newPrivate(t), newPrivate(t)
			s := newSiteOf(t, origin.Registry, mirror.Registry, "resolve_from = \"Origin\"\n")
			s.WriteHosts("registry.test", s.Server(origin.Registry))
			s.Push("app:1", nodetest.Image(1))
			ref := nodetest.Named("app:1")
			s.wantPull(ref, "Pulled absent", alice)
			s.Push("app:1", nodetest.Image(2))
			var mu sync.Mutex
			asked := map[string]int{}
			var order []string
			origin.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") || r.Header.Get("Authorization") == "" {
					next.ServeHTTP(w, r)
					return
				}
				mu.Lock()
				n := asked[r.URL.Path]
				asked[r.URL.Path]++
				mu.Unlock()
				code := later
				if n == 0 {
					code = 403
				}
				mu.Lock()
				order = append(order, r.URL.Path[len(r.URL.Path)-6:]+" "+http.StatusText(code))
				mu.Unlock()
				w.WriteHeader(code)
			})
			mark := s.Mark()
			_, err := s.Pull(ref, alice)
			d := s.Decision(mark, ref)
			t.Log(order, d.Outcome, d.Reason, err)
			s.wantPull(ref, "Failed unproved", alice, policy("Never"))
		})
	}
}
