// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestLocalPull holds that pulls past the transfer service still work and are
// checked, and that what they do not record is said loudly.
func TestLocalPull(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(changed), criImages("use_local_image_pull = true"))
	n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)
	if len(n.logged(0, "pullwarden", `"level":"warning"`, "use_local_image_pull")) == 0 {
		t.Error("the log does not warn of use_local_image_pull")
	}
	mark := n.mark()
	n.r.Forget()
	n.mustPull(ref)
	want(t, "outcome", n.decision(mark, ref).outcome, "Unchanged")
	want(t, "requests", n.requests(), "HEAD manifests")
	second := n.push("app:1", image(2))
	n.mustPull(ref)
	want(t, "target", n.target(ref), second)
	isRunnable(n.daemon, ref)
	n.r.Refuse()
	n.mustPull(ref)
	_ = n.mustFail(ref, []string{n.r.Host()}, hint("policy", "Always"))
}

// TestImageVerifier holds that a verifier's refusal stops pulls and reuse.
func TestImageVerifier(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(changed))
	ref := named("app:1")
	first := n.push("app:1", image(1))
	script := func(condition string) {
		t.Helper()
		path := n.path("verifiers", "verifier")
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		content := fmt.Sprintf("#!/bin/sh\nif %s; then echo allowed; exit 0; fi\necho \"the verifier says no\"; exit 1\n", condition)
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script("true")
	n.mustPull(ref)
	script(`[ "$4" = "` + first.String() + `" ]`)
	n.mustPull(ref)

	n.push("app:1", image(2))
	_ = n.mustFail(ref, []string{"the verifier says no"})
	want(t, "target", n.target(ref), first)

	script("false")
	n.r.Refuse()
	for _, policy := range []string{"IfDigestChanged", "IfNotPresent", "Never"} {
		_ = n.mustFail(ref, []string{"the verifier says no"}, hint("policy", policy))
	}
}

// TestRuntimeHandler holds that an image is made ready for the snapshotter of
// the pod's runtime handler.
func TestRuntimeHandler(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(changed), nativeRuntime())
	n.push("app:1", image(1))
	n.push("app:2", image(2))
	n.mustPull(named("app:1"))
	isRunnable(n.daemon, named("app:1"))
	for _, ref := range []string{named("app:1"), named("app:2")} {
		n.mustPull(ref, runtimeHandler("native"))
		if err := n.runnable(t.Context(), ref, "native"); err != nil {
			t.Errorf("%s cannot run: %v", ref, err)
		}
	}
}

// TestCancel holds that a client that goes away ends its check and its pull,
// and does no harm to the next.
func TestCancel(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(changed, `verify_timeout = "60s"`))
	n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)
	n.push("app:1", image(2))
	for _, part := range []resolvertest.Part{resolvertest.Manifests, resolvertest.Blobs} {
		t.Run("while the registry hangs in "+string(part), func(t *testing.T) {
			undo := n.r.Hang(part)
			n.r.Forget()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			mark := n.mark()
			go func() {
				_, err := n.pullContext(ctx, ref)
				done <- err
			}()
			eventually(t, "the request hangs", func() bool { return n.r.Count(resolvertest.Of("", part)) > 0 })
			cancel()
			if err := <-done; status.Code(err) != codes.Canceled {
				t.Errorf("got %v, want %v", err, codes.Canceled)
			}
			eventually(t, "the daemon gave up", func() bool { return len(n.decisions(mark, ref)) == 1 })
			want(t, "outcome", n.decision(mark, ref).outcome, "Failed")
			undo()
			if strings.Contains(n.labels(ref)["stale-reason"], "un") {
				t.Error("a client that went away counts as a failure of the registry")
			}
		})
	}
	began := time.Now()
	n.mustPull(ref)
	isRunnable(n.daemon, ref)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the next pull took %v", took)
	}
}

// TestOtherClients holds that no policy applies to transfers that do not come
// through CRI.
func TestOtherClients(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(`default_policy = "Never"`))
	n.push("app:1", image(1))
	if err := n.transfer(t.Context(), named("app:1")); err != nil {
		t.Fatal(err)
	}
	want(t, "verified-digest", n.labels(named("app:1"))["verified-digest"], "")
	eventually(t, "CRI has heard of it", func() bool { return n.imageStatus(named("app:1")).GetImage() != nil })
	n.mustPull(named("app:1")) // Never uses what is there
}
