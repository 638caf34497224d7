// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// nodeToken is what the node shows registries by a header of its configuration.
const nodeToken = "q1w2e3r4t5y6u7i8o9p0"

// A hosts.toml has the name of a header in lower case, as containerd's documentation has it. A storage
// service to which the registry redirects does not get it.
func TestHeadersInLowerCaseAreKeptFromStorage(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	shown := make(chan string, 100)
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("X-Node-Token")
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(storage.Close)
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("X-Node-Token") != nodeToken {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet {
			http.Redirect(w, r, storage.URL+"/blob", http.StatusTemporaryRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
	n.WriteHosts("registry.test", fmt.Sprintf("server = %q\n[header]\n  x-node-token = %q\n", n.Registry.URL(), nodeToken))
	n.Push("app:1", nodetest.Image(1))
	_, err := n.Pull(nodetest.Named("app:1"))
	nodetest.WantWords(t, err, "404")
	nodetest.Want(t, "what the storage service is shown", <-shown, "")
}

// A hosts.toml has the very Accept-Encoding by which content is asked for. A storage service to which
// the registry redirects is asked by it too, and not to encode, as it would by net/http's own.
func TestAcceptEncodingBehindARedirect(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	storage := resolvertest.New(t)
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, storage.URL()+r.URL.Path, http.StatusTemporaryRedirect)
	})
	n.WriteHosts("registry.test", fmt.Sprintf("server = %q\n[header]\n  accept-encoding = \"identity\"\n", n.Registry.URL()))
	_, err := storage.Push(t.Context(), "app:1", nodetest.Image(1))
	n.Must(err)
	storage.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("%s %s: Accept-Encoding is %q", r.Method, r.URL.Path, got)
		}
		next.ServeHTTP(w, r)
	})
	n.MustPull(nodetest.Named("app:1"))
}

// The node shows registries a header by CRI's registry.headers. The server to which a layer's urls
// lead does not get it.
func TestHeadersAreKeptFromURLs(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Tables(fmt.Sprintf("[plugins.'io.containerd.cri.v1.images'.registry.headers]\n  X-Node-Token = [%q]\n", nodeToken)))
	layer, data := someLayer(t, 101)
	shown := make(chan string, 10)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Get("X-Node-Token")
		_, _ = w.Write(data)
	}))
	t.Cleanup(elsewhere.Close)
	img := nodetest.WithLayerAt(t, nodetest.Image(1), layer, elsewhere.URL+"/layer")
	n.Push("app:1", img)
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("X-Node-Token") != nodeToken {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	n.MustPull(nodetest.Named("app:1"))
	nodetest.Want(t, "what the host of the url is shown", <-shown, "")
}
