// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRestWithoutRanges has a registry break off in the middle of a layer, and send all of it
// again, slowly, when it is asked for the rest. What comes of it is progress of the pull.
func TestRestWithoutRanges(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.CRIImages(`image_pull_progress_timeout = "2s"`))
	img := bigImage(1)
	n.Push("app:1", img)
	r, err := firstLayer(t, img).Compressed()
	n.Must(err)
	data, err := io.ReadAll(r)
	n.Must(err)
	var asked atomic.Int32
	onLayer(t, n.Registry, img, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		if asked.Add(1) == 1 {
			_, _ = w.Write(data[:len(data)*3/4])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		const parts = 24 // 6 seconds
		for i := range parts {
			_, _ = w.Write(data[len(data)*i/parts : len(data)*(i+1)/parts])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(250 * time.Millisecond):
			}
		}
	})
	n.MustPull(nodetest.Named("app:1"))
	if n := asked.Load(); n != 2 {
		t.Errorf("the layer was asked for %d times, want 2", n)
	}
}

// TestRestThatAMirrorHasLost has a mirror break each layer or config off at the same byte, also
// where it is asked for the rest alone. The registry behind it gives that.
func TestRestThatAMirrorHasLost(t *testing.T) {
	t.Parallel()
	for end, breakOff := range map[string]func(*http.Request){
		"closed": func(*http.Request) { panic(http.ErrAbortHandler) },
		"reset":  resolvertest.ResetOf,
	} {
		for of, config := range map[string]bool{"layers": false, "configs": true} {
			t.Run(of+" "+end, func(t *testing.T) {
				t.Parallel()
				mirror := resolvertest.New(t)
				n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`), nodetest.CRIImages(`image_pull_progress_timeout = "8s"`))
				n.Serve("registry.test", n.Registry, mirror)
				img := bigImage(1)
				n.Push("app:1", img)
				n.PushTo(mirror, "app:1", img)
				mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					answer := httptest.NewRecorder()
					if asked := r.Clone(r.Context()); r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
						asked.Header.Del("Range")
						next.ServeHTTP(answer, asked)
					}
					if all := answer.Body.Bytes(); len(all) > 0 && (all[0] == '{') == config {
						sendHalf(w, r, all)
						breakOff(r)
					}
					next.ServeHTTP(w, r)
				})
				n.MustPull(nodetest.Named("app:1"))
				n.WantRunnable(nodetest.Named("app:1"))
			})
		}
	}
}

// sendHalf sends what there is to be sent of the first half of some content, from the byte on that
// is asked for.
func sendHalf(w http.ResponseWriter, r *http.Request, all []byte) {
	from := 0
	_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
	w.Header().Set("Content-Length", fmt.Sprint(len(all)-from))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(all)-1, len(all)))
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = w.Write(all[from:max(from, len(all)/2)])
	_ = http.NewResponseController(w).Flush()
	select { // a reset overtakes what was sent
	case <-r.Context().Done():
	case <-time.After(300 * time.Millisecond):
	}
}
