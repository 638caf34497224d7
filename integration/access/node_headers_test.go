// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// word is what the node shows a registry, as a header.
const word = "Pass-word-of-the-node"

// letIn has a registry let in by the word alone, but for one tag.
func letIn(registry *resolvertest.Registry) {
	registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("X-Pass") != word {
			http.Error(w, "it is not "+word, http.StatusForbidden)
			return
		}
		if r.URL.Path == "/v2/other/manifests/1" {
			http.Error(w, "not with "+word, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withWord is the hosts.toml of that registry.
func withWord(registry *resolvertest.Registry) string {
	return fmt.Sprintf("server = %q\nheader = { X-Pass = %q }\n", registry.URL(), word)
}

// TestNodesHeaders has a registry that lets the node in by a header of
// hosts.toml. That is no proof for callers, and the header is a secret.
func TestNodesHeaders(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	letIn(n.Registry)
	n.WriteHosts("registry.test", withWord(n.Registry))
	mark := n.Mark()
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	err := n.MustFail(nodetest.Named("other:1"), []string{"forbidden"})
	nodetest.WantNoWords(t, err, word)
	if lines := n.LogLines(mark, word); len(lines) > 0 {
		t.Errorf("the header is logged: %s", lines[0])
	}
	if lines := n.LogLines(mark, "request.header.x-pass", "***"); len(lines) == 0 {
		t.Error("containerd logs no headers any more: the test shows nothing")
	}
	for _, who := range []caller{nobody, alice} {
		_, err := n.Pull(ref, who.secret(), node.Hint("policy", "Never"))
		nodetest.Want(t, "the image is there for "+who.String(), err == nil, false)
	}
	n.MustPull(ref, alice.secret())
	n.MustPull(ref, alice.secret(), node.Hint("policy", "Never"))
	_, err = n.Pull(ref, bob.secret(), node.Hint("policy", "Never"))
	nodetest.Want(t, "the image is there for bob", err == nil, false)
}

// TestNodesHeadersInOtherPulls has pulls that no caller asked for: by a client of
// the transfer service, and of the image of pods. A registry that lets the node in
// by a header has proved nothing for anybody then.
func TestNodesHeadersInOtherPulls(t *testing.T) {
	t.Parallel()
	for dirs := 1; dirs <= 2; dirs++ { // containerd's own pull of the image of pods, and ours
		t.Run(fmt.Sprintf("directories=%d", dirs), func(t *testing.T) {
			t.Parallel()
			testOtherPulls(t, nodetest.New(t, nodetest.Containers(t), nodetest.HostsDirectories(dirs)))
		})
	}
}

func testOtherPulls(t *testing.T, n *nodetest.Node) {
	t.Helper()
	n.Push("app:1", nodetest.Image(1))
	n.WriteHosts("registry.test", withWord(n.Registry))
	pause := resolvertest.New(t)
	n.PushTo(pause, "pause:1", nodetest.Busybox(t, 0, "sleep", "86400"))
	letIn(n.Registry)
	letIn(pause)
	n.Transfer(nodetest.Named("app:1"))
	n.WaitForImage(nodetest.Named("app:1"))
	n.RunPodWith(withWord(pause))
	for _, ref := range []string{nodetest.Named("app:1"), nodetest.PauseImage} {
		for label := range n.Labels(ref) {
			if strings.HasPrefix(label, "access.") || strings.HasPrefix(label, "verified-") {
				t.Errorf("%s has the label %s", ref, label)
			}
		}
		// A caller without credentials is let in as the node is, and has proved nothing.
		n.MustPull(ref, node.Hint("policy", "IfNotPresent"))
		n.MustFail(ref, nil, node.Hint("policy", "Never"))
		n.MustPull(ref, alice.secret(), node.Hint("policy", "IfNotPresent"))
		n.MustPull(ref, alice.secret(), node.Hint("policy", "Never"))
		n.MustFail(ref, nil, bob.secret(), node.Hint("policy", "Never"))
	}
}

// TestNodesCredentialsForAMirror has a mirror that lets the node in by credentials
// of CRI's configuration. That is no proof for callers without any, nor for others.
func TestNodesCredentialsForAMirror(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"node": "word of the node"}))
	n := nodetest.New(t, nodetest.CRICredentials(mirror.Host(), "node", "word of the node"))
	n.PushTo(mirror, "app:1", nodetest.Image(1))
	n.Registry.Status(resolvertest.All, http.StatusForbidden)
	n.Serve("registry.test", n.Registry, mirror)
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	wantNoProof(n, ref)
	for _, who := range []caller{nobody, alice} {
		_, err := n.Pull(ref, who.secret(), node.Hint("policy", "Never"))
		nodetest.Want(t, "the image is there for "+who.String(), err == nil, false)
	}
	n.MustPull(ref, node.Hint("policy", "IfNotPresent"))
	_, err := n.Pull(ref, alice.secret(), node.Hint("policy", "IfNotPresent"))
	nodetest.Want(t, "alice is let in as the node", err == nil, false)
}

// TestNodesCredentialsBehindARedirect has a registry redirect to a host that lets the
// node in by credentials of CRI's configuration. That is no proof for callers without
// any, either.
func TestNodesCredentialsBehindARedirect(t *testing.T) {
	t.Parallel()
	behind := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"node": "word of the node"}))
	n := nodetest.New(t, nodetest.CRICredentials(behind.Host(), "node", "word of the node"))
	n.Serve("behind.test", behind) // so that its certificate is trusted
	n.PushTo(behind, "app:1", nodetest.Image(1))
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, behind.URL()+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	})
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	wantNoProof(n, ref)
	n.MustFail(ref, nil, node.Hint("policy", "Never"))
}

// TestNodesCredentialsBehindAnOpenIndex has a registry give an index to everybody, and the rest to the
// node, by credentials of CRI's configuration. A check of the index alone is no proof then.
func TestNodesCredentialsBehindAnOpenIndex(t *testing.T) {
	t.Parallel()
	registry := resolvertest.New(t)
	n := nodetest.New(t, nodetest.CRICredentials(registry.Host(), "node", "word of the node"))
	pushed := n.PushTo(registry, "app:1", resolvertest.Index(1, 1, 100, "linux/amd64", "linux/arm64"))
	registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if user, secret, _ := r.BasicAuth(); !isIndex(r, pushed) && (user != "node" || secret != "word of the node") {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
	n.Serve("registry.test", registry)
	wantOfTheNodeAlone(n, nodetest.Named("app:1"))
}

// TestNodesHeadersBehindAnOpenIndex has a mirror give an index alone, to everybody, and the registry
// let the node in for the rest, by a header of hosts.toml. The mirror's answer is no proof then.
func TestNodesHeadersBehindAnOpenIndex(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref, _ := openIndexBeforeTheNodes(n)
	wantOfTheNodeAlone(n, ref)
}

// TestObservedNodesHeadersBehindAnOpenIndex holds the same under Observe, where containerd pulls by itself.
func TestObservedNodesHeadersBehindAnOpenIndex(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`mode = "Observe"`))
	ref, _ := openIndexBeforeTheNodes(n)
	mark := n.Mark()
	n.MustPull(ref)
	n.Told(mark, ref)
	wantNoProof(n, ref)
	n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\nmode = 'Enforce'\naccess = 'Strict'\n")
	n.MustFail(ref, nil, node.Hint("policy", "Never"))
}

// openIndexBeforeTheNodes has a mirror give the index of an image to everybody, and the registry the rest to
// the node. It returns the image's name, and the mirror.
func openIndexBeforeTheNodes(n *nodetest.Node) (ref string, mirror *resolvertest.Registry) {
	n.T.Helper()
	mirror = resolvertest.New(n.T)
	index := resolvertest.Index(1, 1, 100, "linux/amd64", "linux/arm64")
	pushed := n.PushTo(mirror, "app:1", index)
	n.PushTo(n.Registry, "app:1", index)
	letIn(n.Registry)
	mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !isIndex(r, pushed) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
	n.WriteHosts("registry.test", fmt.Sprintf("%s[host.%q]\n", withWord(n.Registry), mirror.URL()))
	return nodetest.Named("app:1"), mirror
}

// isIndex reports whether a request is for the index of app:1, or for nothing.
func isIndex(r *http.Request, pushed digest.Digest) bool {
	return r.URL.Path == "/v2/" || r.URL.Path == "/v2/app/manifests/1" || path.Base(r.URL.Path) == pushed.String()
}

// wantOfTheNodeAlone pulls an image without credentials, and has it checked, which gives no proof.
func wantOfTheNodeAlone(n *nodetest.Node, ref string) {
	n.T.Helper()
	n.MustPull(ref)
	wantNoProof(n, ref)
	n.MustPull(ref)
	wantNoProof(n, ref)
	for _, who := range []caller{nobody, alice} {
		n.MustFail(ref, nil, who.secret(), node.Hint("policy", "Never"))
	}
}

// wantNoProof holds that nobody has proved access to an image.
func wantNoProof(n *nodetest.Node, ref string) {
	n.T.Helper()
	for label := range n.Labels(ref) {
		if strings.HasPrefix(label, "access.") {
			n.T.Errorf("it is a proof: %s", label)
		}
	}
}
