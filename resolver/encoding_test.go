// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"compress/flate"
	"net/http"
	"runtime"
	"strings"
	"testing"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// deflated is data that was deflated n times.
func deflated(t *testing.T, data []byte, n int) []byte {
	t.Helper()
	for range n {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, flate.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		data = b.Bytes()
	}
	return data
}

// encoded has blobs say that they were encoded so, and changes them.
func encoded(r *resolvertest.Registry, coding string, change func([]byte) []byte) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if !strings.Contains(req.URL.Path, "/blobs/") {
			next.ServeHTTP(w, req)
			return
		}
		var b buffer
		next.ServeHTTP(&b, req)
		w.Header().Set("Content-Encoding", coding)
		_, _ = w.Write(change(b.Bytes()))
	})
}

// A host may encode content once. containerd decodes it as often as a header says,
// which has room for a million times, with memory for each.
func TestContentThatIsEncodedAgainAndAgain(t *testing.T) {
	for coding, class := range map[string]failure.Class{
		"deflate":                     failure.None,
		"identity, Deflate, identity": failure.None,
		"deflate, deflate":            failure.Invalid,
		"deflate,identity\tdeflate":   failure.Invalid,
	} {
		t.Run(coding, func(t *testing.T) {
			list, hosts := registries(t, 1)
			p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
			source, err := p.pull(t, func() {
				encoded(list[0], coding, func(data []byte) []byte { return deflated(t, data, strings.Count(strings.ToLower(coding), "deflate")) })
			})
			if class == failure.None {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if e := wantClass(t, source.Failure(err), class); !strings.Contains(e.Error(), "encoded more than once") {
				t.Errorf("%q does not say why", e)
			}
		})
	}
}

// The memory that a pull takes is not the registry's to say.
func TestMemoryOfEncodedContent(t *testing.T) {
	list, hosts := registries(t, 1)
	p := newPuller(t, transferlocal.TransferConfig{}, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	var before, after runtime.MemStats
	source, err := p.pull(t, func() {
		encoded(list[0], strings.Repeat("deflate,", 4096), func(data []byte) []byte { return data })
		runtime.ReadMemStats(&before)
	})
	runtime.ReadMemStats(&after)
	wantClass(t, source.Failure(err), failure.Invalid)
	if taken := (after.TotalAlloc - before.TotalAlloc) >> 20; taken > 50 {
		t.Errorf("a header of %d KiB takes %d MiB", 32, taken)
	}
}
