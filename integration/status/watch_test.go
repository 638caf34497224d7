// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bufio"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// maxLines are as many as some minutes show.
const maxLines = 600

// TestWatch follows a pull that is under way to its end.
func TestWatch(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	img := resolvertest.Image(1, 1, 3<<20)
	n.Push("app:1", img)
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet {
			w = &haltedWriter{ResponseWriter: w, left: 1 << 20, goOn: goOn}
		}
		next.ServeHTTP(w, r)
	})
	pulled := make(chan error, 1)
	go func() {
		_, err := n.Pull(nodetest.Named("app:1"))
		pulled <- err
	}()
	defer release()

	binary, err := nodetest.Binary()
	n.Must(err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(binary), "pullwarden"), "--address", n.Address(), "status", "--watch")
	stdout, err := cmd.StdoutPipe()
	n.Must(err)
	n.Must(cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	screen := bufio.NewScanner(stdout)
	read := func(words ...string) {
		t.Helper()
		seen := ""
		for range maxLines {
			if !screen.Scan() {
				break
			}
			seen += strings.Join(strings.Fields(screen.Text()), " ") + " " // lines are wrapped
			if containsAll(seen, words) {
				return
			}
		}
		t.Fatalf("it never shows %q: %s", words, seen)
	}
	read("pulling registry.test/app:1:", "MiB of 3", "/s, from "+n.Registry.Host())
	release()
	n.Must(<-pulled)
	read("IMAGE", "registry.test/app:1 ")
	n.Must(cmd.Process.Signal(syscall.SIGINT))
	for screen.Scan() {
	}
	n.Must(cmd.Wait())
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// haltedWriter waits after so many bytes.
type haltedWriter struct {
	http.ResponseWriter
	left int
	goOn <-chan struct{}
}

func (w *haltedWriter) Write(p []byte) (int, error) {
	first := min(len(p), max(w.left, 0))
	w.left -= len(p)
	n, err := w.ResponseWriter.Write(p[:first])
	if err != nil || first == len(p) {
		return n, err
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	<-w.goOn
	n, err = w.ResponseWriter.Write(p[first:])
	return first + n, err
}
