// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// keyFile is where the key of the fingerprints is.
func (d *daemon) keyFile() string {
	return d.path("root", "io.containerd.image-policy.v1.pullwarden", "key")
}

// TestAccessOutlives holds that proofs, refusals and their absence outlive
// restarts and kills, and that no proof outlives the key.
func TestAccessOutlives(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	of := func(repo string) *scene { return g.scene(t, d, repo) }

	private, checked, public, refused := of("private/app"), of("private/checked"), of("public/app"), of("private/refused")
	for i, s := range []*scene{private, checked, public, refused} {
		s.digest = s.push("1", image(int64(i)))
	}
	preloaded := "preloaded.test/app:1"
	d.preload(preloaded, image(100))
	_ = private.ask(alice, "Always", private.ref(":1"), "Pulled")
	_ = checked.ask(alice, "Always", checked.ref(":1"), "Pulled")
	_ = checked.ask(bob, "IfNotPresent", checked.ref(":1"), "Unchanged")
	_ = public.ask(nobody, "Always", public.ref(":1"), "Pulled")
	_ = refused.ask(alice, "Always", refused.ref(":1"), "Pulled")
	_ = refused.ask(bob, "IfNotPresent", refused.ref(":1"), "Unchanged")
	private.settle()
	g.deny(alice.user, refused.repo, true)
	_ = refused.ask(alice, "Always", refused.ref(":1"), "Failed") // and at once:

	// stands holds who may reuse what without asking; with the key, or without.
	stands := func(after string, key bool) {
		t.Helper()
		for _, s := range []*scene{private, checked, public, refused} {
			s.daemon = g.scene(t, d, s.repo).daemon // the clients are new
		}
		proved := map[bool]string{true: "Present", false: "Failed"}[key]
		g.Refuse()
		defer private.up()
		for _, ref := range []string{private.ref(":1"), private.digest} {
			_ = private.ask(alice, "Never", ref, proved)
			_ = private.ask(alice, "IfNotPresent", ref, proved)
			for _, who := range []tenant{nobody, wrong, eve, bob} {
				_ = private.ask(who, "Never", ref, "Failed")
				_ = private.ask(who, "IfNotPresent", ref, "Failed")
			}
		}
		_ = checked.ask(bob, "Never", checked.ref(":1"), proved)
		_ = refused.ask(alice, "Never", refused.ref(":1"), "Failed")
		_ = refused.ask(alice, "Never", refused.digest, "Failed")
		_ = refused.ask(bob, "Never", refused.ref(":1"), proved)
		_ = public.ask(nobody, "Never", public.ref(":1"), "Present")
		_ = public.ask(eve, "Never", public.ref(":1"), "Present")
		_ = private.ask(nobody, "Never", preloaded, "Present")
		if t.Failed() {
			t.Fatalf("after %s", after)
		}
	}
	d.kill()
	d.restart()
	stands("a kill", true)
	d.restart()
	stands("a restart", true)

	key, err := os.ReadFile(d.keyFile())
	if err != nil || len(key) != 32 {
		t.Fatalf("a key of %d bytes: %v", len(key), err)
	}
	isKey := func() {
		t.Helper()
		info, err := os.Stat(d.keyFile())
		if err != nil || info.Mode() != 0o600 || info.Size() != 32 {
			t.Errorf("the key's file is %v, %v", info, err)
		}
	}
	isKey()
	for what, damage := range map[string]func() error{
		"the loss of the key":   func() error { return os.Remove(d.keyFile()) },
		"a key cut short":       func() error { return os.WriteFile(d.keyFile(), key[:16], 0o600) },
		"a key too long":        func() error { return os.WriteFile(d.keyFile(), append(key[:32:32], 'x'), 0o600) },
		"an empty key":          func() error { return os.WriteFile(d.keyFile(), nil, 0o600) },
		"a key of zeros":        func() error { return os.WriteFile(d.keyFile(), make([]byte, 32), 0o600) },
		"another key":           func() error { return os.WriteFile(d.keyFile(), bytes.Repeat([]byte{1}, 32), 0o600) },
		"a key others can read": func() error { return os.Chmod(d.keyFile(), 0o644) },
	} {
		d.stop()
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		d.run()
		d.waitForCRI()
		stands(what, false)
		isKey()
		d.stop()
		if err := os.WriteFile(d.keyFile(), key, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d.keyFile(), 0o600); err != nil {
			t.Fatal(err)
		}
		d.run()
		d.waitForCRI()
		stands("the key is back after "+what, true)
	}
	if err := os.Remove(d.keyFile()); err != nil {
		t.Fatal(err)
	}
	d.restart()
	private.daemon = g.scene(t, d, private.repo).daemon
	_ = private.ask(alice, "IfNotPresent", private.ref(":1"), "Unchanged")
	_ = private.ask(alice, "Never", private.ref(":1"), "Present")
	_ = private.ask(nobody, "Never", private.ref(":1"), "Failed")
}

// TestAccessAfterKillInPull kills the daemon at each step of a private pull: in
// the download, and at every change of an image record.
func TestAccessAfterKillInPull(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	const maxEvents = 20
	for event := 0; event <= maxEvents; event++ {
		s := g.scene(t, d, fmt.Sprintf("private/app%d", event))
		s.digest = s.push("1", image(int64(event)))
		finished := s.pullAndKill(event)
		d.restart()
		s.daemon = g.scene(t, d, s.repo).daemon
		g.Refuse()
		for _, ref := range []string{s.ref(":1"), s.digest} {
			for _, policy := range []string{"IfNotPresent", "Never", "IfDigestChanged"} {
				_ = s.ask(nobody, policy, ref, "Failed")
				_ = s.ask(wrong, policy, ref, "Failed")
				_ = s.ask(bob, policy, ref, "Failed")
			}
		}
		s.up()
		_ = s.ask(wrong, "IfNotPresent", s.digest, "Failed")
		_ = s.ask(nobody, "IfNotPresent", s.ref(":1"), "Failed")
		_ = s.ask(alice, "IfNotPresent", s.ref(":1"), "~")
		_ = s.ask(nobody, "Never", s.digest, "Failed")
		_ = s.ask(alice, "Never", s.ref(":1"), "Present")
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
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	changes := s.imageChanges(ctx)
	undo := func() {}
	if event == 0 {
		undo = s.g.Hang(resolvertest.Blobs)
	}
	pulled := make(chan error, 1)
	go func() {
		_, err := s.pull(s.ref(":1"), alice.secret())
		pulled <- err
	}()
	if event == 0 {
		eventually(s.t, "a blob is asked for", func() bool { return s.g.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	}
	var late <-chan time.Time // events come a little after what they tell
	for seen := 0; seen < event && !finished; {
		select {
		case <-changes:
			seen++
		case err := <-pulled:
			if err != nil {
				s.t.Fatal(err)
			}
			late = time.After(time.Second)
		case <-late:
			finished = true
		}
	}
	s.kill()
	undo()
	s.g.Forget()
	if late == nil {
		<-pulled
	}
	return finished
}

// imageChanges is sent something for each change of an image record from now
// on.
func (s *scene) imageChanges(ctx context.Context) <-chan struct{} {
	s.t.Helper()
	const probe = "probe.test/x:1"
	changes := make(chan struct{}, 100)
	ready := make(chan struct{}, 100)
	all, _ := s.client.EventService().Subscribe(ctx, `topic~="^/images/"`)
	go func() {
		for {
			select {
			case e := <-all:
				if bytes.Contains(e.Event.GetValue(), []byte(probe)) {
					ready <- struct{}{}
				} else {
					changes <- struct{}{}
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	target := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(""), Size: 1}
	eventually(s.t, "events come", func() bool {
		_, err := s.client.ImageService().Create(ctx, images.Image{Name: probe, Target: target})
		if err == nil {
			err = s.client.ImageService().Delete(ctx, probe)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return len(ready) > 0
	})
	return changes
}
