// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestCachedMeanwhile starts pods from the cached image while the new one is pulled, once
// for all of them, and the next pod from the new one.
func TestCachedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newScene(t, nodetest.OpenToAll(t), atOnce)
	mark := s.Mark()
	d := s.wantCached()
	nodetest.Want(t, "level", d.Level, "warning")
	nodetest.Want(t, "awaited", d.Awaited, s.new.String())
	nodetest.Want(t, "digest", d.Digest, s.old.String())
	nodetest.Eventually(t, "the record is marked stale", func() bool { return s.Labels(s.ref)["stale-reason"] == "pull_deadline" })
	nodetest.Want(t, "verified digest", s.Labels(s.ref)["verified-digest"], s.old.String())
	s.wantCached(node.Pod("team-b", "other"))
	s.wantCached(node.Hint("pull-deadline", "100ms"))
	s.Registry.Forget()
	s.release()
	s.wantNew(mark)
	if manifests := s.Registry.Count(resolvertest.Of("GET", resolvertest.Manifests)); manifests > 1 {
		t.Errorf("the new image was pulled %d times", manifests)
	}
	nodetest.Want(t, "target of the old digest", s.Target("registry.test/app@"+s.old.String()), s.old)
}

// TestDeadline waits for as long as the directive says, and no request waits for longer
// than its own: each is told apart by the hint.
func TestDeadline(t *testing.T) {
	t.Parallel()
	s := newScene(t, nodetest.OpenToAll(t), nodetest.Section(nodetest.IfDigestChanged, `pull_deadline = "1h"`))
	mark := s.Mark()
	var waits sync.WaitGroup
	waits.Go(func() {
		if id, err := s.Pull(s.ref); err != nil || id == s.id {
			t.Errorf("who waits longer got %s, %v", id, err)
		}
	})
	nodetest.Eventually(t, "the content is asked for", func() bool { return s.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	s.wantCached(node.Hint("pull-deadline", "200ms"))
	s.release()
	waits.Wait()
	nodetest.Eventually(t, "both are told", func() bool { return s.background(mark) != "" && len(s.Decisions(mark, s.ref)) == 2 })
	nodetest.Want(t, "pull in the background", s.background(mark), "Pulled (changed)")
	nodetest.Want(t, "target", s.Target(s.ref), s.new)
}

// TestOnlyUnderIfDigestChanged holds that other policies wait for what they pull.
func TestOnlyUnderIfDigestChanged(t *testing.T) {
	t.Parallel()
	s := newScene(t, nodetest.OpenToAll(t), atOnce)
	mark := s.Mark()
	pulled := make(chan error, 1)
	go func() {
		_, err := s.Pull(s.ref, node.Hint("policy", "Always"))
		pulled <- err
	}()
	nodetest.Eventually(t, "the content is asked for", func() bool { return s.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	select {
	case err := <-pulled:
		t.Errorf("it did not wait: %v", err)
	default:
	}
	s.release()
	s.Must(<-pulled)
	nodetest.Want(t, "outcome", s.Decision(mark, s.ref).Outcome, "Pulled")
	nodetest.Want(t, "pull in the background", s.background(mark), "")
}

// TestFailsInTheBackground tells of a failure, tries again at the next request and not
// before, and keeps the image.
func TestFailsInTheBackground(t *testing.T) {
	t.Parallel()
	s := newScene(t, nodetest.OpenToAll(t), atOnce)
	undo := s.Registry.Status(resolvertest.Blobs, 503)
	s.release()
	mark := s.Mark()
	s.wantCached()
	nodetest.Eventually(t, "the pull fails", func() bool { return s.background(mark) != "" })
	nodetest.Want(t, "pull in the background", s.background(mark), "Failed (unavailable)")
	nodetest.Want(t, "target", s.Target(s.ref), s.old)
	undo()
	mark = s.Mark()
	s.wantCached()
	s.wantNew(mark)
}

// TestTagMovesAgain pulls what was pushed during a pull in the background after it, for one pod or for two, which
// wait for the same pull.
func TestTagMovesAgain(t *testing.T) {
	t.Parallel()
	for _, pods := range []int{1, 2} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			s := newScene(t, nodetest.OpenToAll(t), atOnce)
			mark := s.Mark()
			s.wantCached()
			third := s.Push("app:1", nodetest.Image(3))
			for range pods {
				nodetest.Want(t, "awaited", s.wantCached().Awaited, third.String())
			}
			s.release()
			nodetest.Eventually(t, "both pulls end", func() bool { return strings.Count(s.background(mark), "(") == 2 })
			nodetest.Want(t, "ends", s.background(mark), "Pulled (changed)Pulled (changed)")
			nodetest.Want(t, "target", s.Target(s.ref), third)
			s.MustPull(s.ref)
			s.WantRunnable(s.ref)
			s.WantTrueLabels()
		})
	}
}

// TestRulesChangeMeanwhile lets a pull end under the rules that it began under; who comes
// later is under the new ones.
func TestRulesChangeMeanwhile(t *testing.T) {
	t.Parallel()
	s := newScene(t, nodetest.OpenToAll(t), atOnce)
	mark := s.Mark()
	s.wantCached()
	s.WriteRules("10.toml", "[[rule]]\nimages = ['**']\npolicy = 'Never'\n")
	nodetest.Eventually(t, "the new rule decides", func() bool {
		at := s.Mark()
		nodetest.Want(t, "image ID", s.MustPull(s.ref), s.id)
		return s.Decision(at, s.ref).Policy == "Never"
	})
	s.release()
	nodetest.Eventually(t, "the pull ends", func() bool { return s.background(mark) != "" })
	nodetest.Want(t, "target", s.Target(s.ref), s.new)
	at := s.Mark()
	if id := s.MustPull(s.ref); id == s.id {
		t.Error("the old image is back")
	}
	nodetest.Want(t, "outcome", s.Decision(at, s.ref).Outcome, "Present")
}
