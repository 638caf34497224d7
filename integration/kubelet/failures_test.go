// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// faults are registries that fail, and the class of each failure.
var faults = []struct {
	class string
	begin func(*Kubelet)
}{
	{"unreachable", func(k *Kubelet) { k.Node.Registry.Refuse() }},
	{"unavailable", func(k *Kubelet) { k.Node.Registry.Status(resolvertest.All, http.StatusServiceUnavailable) }},
	{"rate_limited", func(k *Kubelet) { k.Node.Registry.Status(resolvertest.All, http.StatusTooManyRequests) }},
	{"not_found", func(k *Kubelet) { k.Node.DeleteTag("app", "1") }},
}

// TestFallback holds that pods whose registry fails start from the cache, each kind
// of failure in its turn, that their image is marked as stale, and that a pod after the
// registry's recovery gets the new image, without marks.
func TestFallback(t *testing.T) {
	onNode(t, func(k *Kubelet) { testFallback(k, Always) }, nodetest.Section(nodetest.IfDigestChanged))
}

// TestFallbackOfStarts is TestFallback for pods with imagePullPolicy: IfNotPresent under
// govern = "Starts".
func TestFallbackOfStarts(t *testing.T) {
	onNode(t, func(k *Kubelet) { testFallback(k, IfNotPresent) }, rules(t, starts))
}

func testFallback(k *Kubelet, pull string) {
	k.T.Helper()
	pod, ref := app("app:1", pull), nodetest.Named("app:1")
	now := k.Push("app:1", 1)
	k.Run(pod).WantStarted(now)
	for i, fault := range faults {
		fault.begin(k)
		old := k.Run(pod)
		old.WantStarted(now)
		old.Crash()
		old.WantRestarted(1, now)
		k.until("the image is marked as "+fault.class, func() error { return k.labelled(ref, "stale-reason", fault.class) })

		k.Node.Restore()
		now = k.Push("app:1", int64(i+2))
		k.until("a pod gets the new image", func() error {
			r := k.Run(pod)
			defer r.Remove()
			return r.startedFrom(now)
		})
		k.until("the marks are gone", func() error { return k.labelled(ref, "stale-since", "") })
		old.Remove()
	}
}

// TestBackOff holds that a pod that may not start from the cache waits while its
// registry fails, with the kubelet's reason for it, and starts by itself once it is
// back.
func TestBackOff(t *testing.T) {
	onNode(t, func(k *Kubelet) { testBackOff(k, Always) })
}

// TestBackOffOfStarts is TestBackOff for pods with imagePullPolicy: IfNotPresent under
// govern = "Starts".
func TestBackOffOfStarts(t *testing.T) {
	onNode(t, func(k *Kubelet) { testBackOff(k, IfNotPresent) }, rules(t, "[[rule]]\nimages = ['registry.test/**']\npolicy = 'Always'\ngovern = 'Starts'\n"))
}

func testBackOff(k *Kubelet, pull string) {
	k.T.Helper()
	for i, fault := range faults {
		first := k.Push("app:1", int64(2*i))
		k.until("a pod starts", func() error { return k.Run(app("app:1", pull)).startedFrom(first) })
		fault.begin(k)
		waiting := k.Run(app("app:1", pull))
		reason := "RegistryUnavailable"
		if fault.class == "not_found" {
			reason = "ErrImagePull"
		}
		waiting.WantWaiting("ImagePullBackOff", "Back-off pulling image", reason, fault.class)
		second := k.Push("app:1", int64(2*i+1))
		k.Node.Restore()
		waiting.WantStarted(second)
	}
}
