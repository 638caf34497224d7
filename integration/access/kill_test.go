// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessAfterKillInPull kills the daemon at each step of a private pull: in
// the download, and at every change of an image record.
func TestAccessAfterKillInPull(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	const maxEvents = 20
	for event := 0; event <= maxEvents; event++ {
		s := g.scene(t, n, fmt.Sprintf("private/app%d", event))
		s.digest = s.push("1", nodetest.Image(int64(event)))
		finished := s.pullAndKill(event)
		n.Restart()
		g.Refuse()
		for _, ref := range []string{s.ref(":1"), s.digest} {
			for _, policy := range []string{"IfNotPresent", "Never", "IfDigestChanged"} {
				s.wantPull(nobody, policy, ref, "Failed")
				s.wantPull(wrong, policy, ref, "Failed")
				s.wantPull(bob, policy, ref, "Failed")
			}
		}
		s.Restore()
		s.wantPull(wrong, "IfNotPresent", s.digest, "Failed")
		s.wantPull(nobody, "IfNotPresent", s.ref(":1"), "Failed")
		s.wantPull(alice, "IfNotPresent", s.ref(":1"), "~")
		s.wantPull(nobody, "Never", s.digest, "Failed")
		s.wantPull(alice, "Never", s.ref(":1"), "Present")
		if t.Failed() {
			t.Fatalf("after a kill at step %d", event)
		}
		if finished {
			if event < 4 { // repository@digest, tag, ID
				t.Errorf("a pull has %d steps only", event)
			}
			return
		}
	}
	t.Errorf("a pull has more than %d steps", maxEvents)
}

// pullAndKill kills the daemon at the nth change of an image record, counted
// from 1, or in the download for 0. It reports whether the pull was finished
// before.
func (s *scene) pullAndKill(event int) (finished bool) {
	s.T.Helper()
	ctx, cancel := context.WithCancel(s.T.Context())
	defer cancel()
	changes, end := s.imageChanges(ctx)
	undo := func() {}
	if event == 0 {
		undo = s.g.Hang(resolvertest.Blobs)
	}
	pulled := make(chan error, 1)
	go func() {
		_, err := s.Pull(s.ref(":1"), alice.secret())
		pulled <- err
	}()
	if event == 0 {
		nodetest.Eventually(s.T, "a blob is asked for", func() bool { return s.g.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	}
	ended := false
	for seen := 0; seen < event && !finished; {
		select {
		case <-changes:
			seen++
		case err := <-pulled:
			if err != nil {
				s.T.Fatal(err)
			}
			ended = true
			end()
			finished = seen+len(changes) < event // they are all there
		}
	}
	s.Kill()
	undo()
	s.g.Forget()
	if !ended {
		<-pulled
	}
	return finished
}

// imageChanges is sent something for each change of an image record from now on, until
// end is called, which waits for those before.
func (s *scene) imageChanges(ctx context.Context) (_ <-chan struct{}, end func()) {
	s.T.Helper()
	const probe, last = "probe.test/x:1", "probe.test/last:1"
	changes := make(chan struct{}, 100)
	ready := make(chan struct{}, 100)
	over := make(chan struct{})
	all, _ := s.Client.EventService().Subscribe(ctx, `topic~="^/images/"`)
	go func() {
		for {
			select {
			case e := <-all:
				switch event := e.Event.GetValue(); {
				case bytes.Contains(event, []byte(probe)):
					ready <- struct{}{}
				case bytes.Contains(event, []byte(last)):
					close(over)
					return
				default:
					changes <- struct{}{}
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	target := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(""), Size: 1}
	create := func(name string) {
		_, err := s.Client.ImageService().Create(ctx, images.Image{Name: name, Target: target})
		s.Must(err)
	}
	nodetest.Eventually(s.T, "events come", func() bool {
		create(probe)
		s.Must(s.Client.ImageService().Delete(ctx, probe))
		return len(ready) > 0
	})
	return changes, func() {
		create(last)
		<-over
		s.Must(s.Client.ImageService().Delete(ctx, last))
	}
}
