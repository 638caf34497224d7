// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

var (
	asAlice = node.Credentials("alice", "a")
	asBob   = node.Credentials("bob", "b")
)

// private returns a registry whose users may pull while allowed says so.
func private(t *testing.T, allowed func(user string) bool) *resolvertest.Registry {
	t.Helper()
	r := resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "a", "bob": "b"}))
	r.Allow(func(user, _ string) bool { return user != "" && allowed(user) })
	return r
}

// newPrivateScene is a scene whose cached image alice has proved access to.
func newPrivateScene(t *testing.T, allowed func(user string) bool) *scene {
	t.Helper()
	n := nodetest.NewWith(t, private(t, allowed), atOnce)
	s := &scene{Node: n, ref: nodetest.Named("app:1")}
	s.old = n.Push("app:1", nodetest.Image(1))
	s.id = n.MustPull(s.ref, asAlice)
	s.new = n.Push("app:1", nodetest.Image(2))
	s.release = n.Registry.Hang(resolvertest.Blobs)
	t.Cleanup(s.release)
	return s
}

// TestUnprovedCallerWaits gives the cached image to nobody who has not proved access to
// it: the yes to the tag is for the new one.
func TestUnprovedCallerWaits(t *testing.T) {
	t.Parallel()
	s := newPrivateScene(t, func(string) bool { return true })
	s.wantCached(asAlice)
	answered := func(r resolvertest.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.Path, "/manifests/1") && r.Status == http.StatusOK
	}
	before := s.Registry.Count(answered)
	pulled := make(chan string, 1)
	go func() {
		id, err := s.Pull(s.ref, asBob)
		if err != nil {
			t.Error(err)
		}
		pulled <- id
	}()
	nodetest.Eventually(t, "bob's check", func() bool { return s.Registry.Count(answered) > before })
	s.wantCached(asAlice)
	select {
	case id := <-pulled:
		t.Errorf("bob did not wait, and got %s", id)
	default:
	}
	s.MustFail(s.ref, []string{"unauthorized"})
	s.release()
	if id := <-pulled; id == s.id {
		t.Error("bob has the old image")
	}
}

// TestRefusedInTheBackground ends the proof of a caller whom the registry refuses the
// content of the new image: the cached one is not for it any more.
func TestRefusedInTheBackground(t *testing.T) {
	t.Parallel()
	s := newPrivateScene(t, func(string) bool { return true })
	s.Registry.Status(resolvertest.Blobs, 403)
	s.release()
	mark := s.Mark()
	s.wantCached(asAlice)
	nodetest.Eventually(t, "the pull fails", func() bool { return s.background(mark) != "" })
	nodetest.Want(t, "pull in the background", s.background(mark), "Failed (forbidden)")
	s.MustFail(s.ref, []string{"forbidden"}, asAlice)
	s.MustFail(s.ref, nil, asAlice, node.Hint("policy", "Never"))
	nodetest.Want(t, "target", s.Target(s.ref), s.old)
}

// TestNamespacesRefusedInTheBackground ends the proof of the namespace whose pull is
// refused, and not that of another one which has made a check of its own and left the
// download to that pull.
func TestNamespacesRefusedInTheBackground(t *testing.T) {
	t.Parallel()
	s := newPrivateScene(t, func(string) bool { return true })
	s.WriteRules("10.toml", "[[rule]]\nimages = ['**']\naccess_identity = 'Namespace'\n")
	pods := []node.PullOption{node.Pod("team-a", "a"), node.Pod("team-b", "b"), node.Pod("team-c", "c")}
	never := node.Hint("policy", "Never")
	s.Tag("app", "1", s.old)
	for _, pod := range pods {
		s.MustPull(s.ref, asAlice, pod)
		s.MustPull(s.ref, pod, never)
	}
	s.Registry.Status(resolvertest.Blobs, 403) // once they are released
	s.Tag("app", "1", s.new)
	mark := s.Mark()
	s.wantCached(asAlice, pods[0])
	s.wantCached(asAlice, pods[1])
	s.release()
	nodetest.Eventually(t, "the pull fails", func() bool { return s.background(mark) != "" })
	nodetest.Want(t, "pull in the background", s.background(mark), "Failed (forbidden)")
	s.MustFail(s.ref, nil, pods[0], never)
	s.MustPull(s.ref, pods[1], never)
	s.MustPull(s.ref, pods[2], never)
}

// TestDeniedMeanwhile takes a proof away while its holder's pull is under way: neither the
// old image nor the new one is for the caller, until it proves access anew.
func TestDeniedMeanwhile(t *testing.T) {
	t.Parallel()
	var denied atomic.Bool
	s := newPrivateScene(t, func(user string) bool { return user != "alice" || !denied.Load() })
	mark := s.Mark()
	s.wantCached(asAlice)
	denied.Store(true)
	s.Registry.RevokeTokens()
	s.MustFail(s.ref, []string{"unauthorized"}, asAlice)
	s.MustFail(s.ref, nil, asAlice, node.Hint("policy", "IfNotPresent"))
	s.release()
	nodetest.Eventually(t, "the pull ends", func() bool { return s.background(mark) != "" })
	s.MustFail(s.ref, nil, asAlice, node.Hint("policy", "Never"))
	s.MustFail(s.ref, nil, asAlice, node.Hint("policy", "IfNotPresent"))
	denied.Store(false)
	s.MustPull(s.ref, asAlice)
	nodetest.Want(t, "target", s.Target(s.ref), s.new)
	s.WantTrueLabels()
}
