// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package origin tests on a node who has the word about an image: the registry that
// its name says, a mirror in the place of that registry, and a host with its authority.
package origin

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// site is a node with a registry behind the name registry.test, which is the origin,
// and a mirror before it that may pull and resolve.
type site struct {
	*nodetest.Node
	mirror *resolvertest.Registry
}

func newSite(t *testing.T, rule string, opts ...nodetest.Option) site {
	t.Helper()
	return newSiteOf(t, resolvertest.New(t), resolvertest.New(t), rule, opts...)
}

// newSiteOf is newSite with those hosts. The rule is for all images of the name.
func newSiteOf(t *testing.T, origin, mirror *resolvertest.Registry, rule string, opts ...nodetest.Option) site {
	t.Helper()
	n := nodetest.Prepare(t, append([]nodetest.Option{nodetest.Section(nodetest.IfDigestChanged)}, opts...)...)
	n.WriteRules("rule.toml", ruleOf(rule, mirror))
	n.Start()
	n.Registry = origin
	s := site{n, mirror}
	s.forgetTrouble()
	return s
}

// ruleOf is the rule file; MIRROR in the rule stands for the mirror.
func ruleOf(rule string, mirror *resolvertest.Registry) string {
	return "[[rule]]\nimages = [\"registry.test/**\"]\n" + strings.ReplaceAll(rule, "MIRROR", mirror.Host())
}

// in returns the site for a part of the test. No fault before counts.
func (s site) in(t *testing.T) site {
	s.Node = s.In(t)
	s.Must(s.mirror.Restore())
	s.Restore()
	s.forgetTrouble()
	return s
}

// forgetTrouble changes hosts.toml, upon which the node forgets which hosts are in
// trouble.
func (s site) forgetTrouble() {
	s.T.Helper()
	hosts := s.Server(s.Registry) + s.Mirror(s.mirror, "") + fmt.Sprintf("# %d\n", changes.Add(1))
	s.WriteHosts("registry.test", hosts)
}

// changes counts those of hosts.toml, so that no two files are the same.
var changes atomic.Int64

// both pushes an image to both hosts, and returns the digest.
func (s site) both(ref string, seed int64) string {
	s.T.Helper()
	s.PushTo(s.mirror, ref, nodetest.Image(seed))
	return s.Push(ref, nodetest.Image(seed)).String()
}

// withMirrorsProof pulls an image of app:1 from the mirror while the registry is down, which that has another
// one of, and is back then.
func (s site) withMirrorsProof(t *testing.T, ref string, img v1.Image) site {
	t.Helper()
	s.PushTo(s.mirror, "app:1", nodetest.Image(1))
	s.Push("app:1", img)
	restored := s.in(t)
	statusOf(503)(t, s.Registry)
	s.wantPull(ref, "Pulled mirror_fallback")
	return restored.in(t)
}

// lacks has the registry say that it has not a layer.
func (s site) lacks(layer string) {
	s.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/blobs/"+layer) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// wantPull pulls, and holds outcome and reason: "UsedCached mirror_fallback".
func (s site) wantPull(ref, outcome string, opts ...node.PullOption) node.Decision {
	s.T.Helper()
	mark := s.Mark()
	id, err := s.Pull(ref, opts...)
	got := s.Decision(mark, ref)
	nodetest.Want(s.T, "outcome of "+ref, got.Outcome+" "+got.Reason, outcome)
	if failed := got.Outcome == "Failed"; failed != (err != nil) || failed != (id == "") {
		s.T.Errorf("%s of %s: image %q, error %v", got.Outcome, ref, id, err)
	}
	return got
}

// wantLabels waits until the labels of the record have these values; "" is none.
func (s site) wantLabels(ref string, want map[string]string) {
	s.T.Helper()
	for label, value := range want {
		nodetest.Eventually(s.T, label+" of "+ref+" is "+value, func() bool { return s.Labels(ref)[label] == value })
	}
}

// asked is how many requests for manifests and blobs a host has got.
func asked(r *resolvertest.Registry) int {
	return r.Count(resolvertest.Of("", resolvertest.Manifests)) + r.Count(resolvertest.Of("", resolvertest.Blobs))
}

func always(more ...string) node.PullOption {
	return node.Hint(append([]string{"policy", "Always"}, more...)...)
}

// fault is what a host can be in.
type fault = func(*testing.T, *resolvertest.Registry)

func refused(_ *testing.T, r *resolvertest.Registry) { r.Refuse() }

func hanging(_ *testing.T, r *resolvertest.Registry) { r.Hang(resolvertest.All) }

func swallowed(t *testing.T, r *resolvertest.Registry) {
	// Connections of the address that end just now may keep it for a moment.
	nodetest.Eventually(t, "the address is free", func() bool {
		err := r.Swallow()
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// portal answers as one does that wants a login first.
func portal(_ *testing.T, r *resolvertest.Registry) { r.HTML(resolvertest.Manifests) }

func statusOf(code int) fault {
	return func(_ *testing.T, r *resolvertest.Registry) { r.Status(resolvertest.Manifests, code) }
}

// nothingGet answers GET of a manifest with a status, HEAD as ever.
func nothingGet(r *resolvertest.Registry, code int) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/manifests/") {
			w.WriteHeader(code)
			return
		}
		next.ServeHTTP(w, req)
	})
}
