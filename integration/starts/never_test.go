// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestNeverPull holds that a pod with imagePullPolicy: Never starts one retry later, that
// it is remembered then, and until it is removed.
func TestNeverPull(t *testing.T) {
	t.Parallel()
	n := withPods(t, everywhere)
	ref, other := nodetest.Named("app:1"), nodetest.Named("app:2")
	n.Push("app:1", nodetest.Image(1))
	n.Push("app:2", nodetest.Image(2))
	first := newPod(n, "default", "first")
	first.mustStart(ref, "Pulled")
	first.mustStart(other, "Pulled")
	p := newPod(n, "default", "never")
	p.run()
	if _, err := p.starts("Never", ref); !errors.Is(err, errNeverPull) {
		t.Errorf("at first it gets %v", err)
	}
	p.wants(ref, true, true, true)
	p.wants(other, false, true)
	newPod(n, "default", "unlike").wants(ref, false)
	twin := *p
	twin.name = "again" // another sandbox of the pod
	twin.run()
	twin.ends(t.Context())
	p.wants(ref, true)
	p.ends(t.Context())
	p.wants(ref, false, true)
	n.Restart()
	p.wants(ref, false, true, true)
}

// TestPullsAfterAll holds that a pod of which it was thought that it does not pull counts
// as any other once it has pulled.
func TestPullsAfterAll(t *testing.T) {
	t.Parallel()
	n := newNode(t, everywhere)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	newPod(n, "default", "first").mustStart(ref, "Pulled")
	p := newPod(n, "default", "late")
	p.wants(ref, false, true)
	if _, err := p.pulls(ref); err != nil { // a kubelet with KEP-2535 may want to
		t.Fatal(err)
	}
	p.mustStart(ref, "Unchanged")
}

// TestBackOff holds that a pod whose pull has failed gets no image while its kubelet
// waits, however often that asks.
func TestBackOff(t *testing.T) {
	t.Parallel()
	n := newNode(t, "[[rule]]\nimages = ['**']\npolicy = 'Always'\ngovern = 'Starts'\n")
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	p := newPod(n, "default", "first")
	p.mustStart(ref, "Pulled")
	n.Registry.Refuse()
	late := newPod(n, "default", "second")
	for _, p := range []*pod{p, late} {
		for range 2 {
			if id, err := p.starts("IfNotPresent", ref); err == nil {
				t.Errorf("%s gets %s", p.name, id)
			}
			p.wants(ref, false, false, false)
		}
	}
	n.Restore()
	p.mustStart(ref, "Unchanged")
	late.mustStart(ref, "Unchanged")
}

// TestOneQuestionAfterAPull holds that one question after a pull is answered with the
// image, of that pod and reference.
func TestOneQuestionAfterAPull(t *testing.T) {
	t.Parallel()
	n := newNode(t, everywhere)
	n.Push("app:1", nodetest.Image(1))
	n.Push("app:2", nodetest.Image(1))
	ref, other := nodetest.Named("app:1"), nodetest.Named("app:2")
	p, q := newPod(n, "default", "first"), newPod(n, "default", "second")
	p.mustStart(ref, "Pulled")
	p.mustStart(other, "Pulled")
	if _, err := p.Pull(ref); err != nil { // not by a kubelet
		t.Fatal(err)
	}
	q.wants(ref, false)
	if _, err := p.pulls(ref); err != nil {
		t.Fatal(err)
	}
	p.wants(other, false)
	p.wants(ref, false)
}

// TestMixedPod holds that two containers of a pod share an image although only one of
// them pulls: the other starts one retry later, and the first goes on to follow its tag.
func TestMixedPod(t *testing.T) {
	t.Parallel()
	n := newNode(t, everywhere)
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	p := newPod(n, "default", "first")
	p.mustStart(ref, "Pulled")
	if _, err := p.starts("Never", ref); !errors.Is(err, errNeverPull) {
		t.Errorf("at first it gets %v", err)
	}
	if _, err := p.starts("Never", ref); err != nil {
		t.Errorf("then it gets %v", err)
	}
	n.Push("app:1", nodetest.Image(2))
	p.mustStart(ref, "Pulled")
}

// TestManyPodsAtOnce holds that pods that start together share their checks, and do not
// disturb each other.
func TestManyPodsAtOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t, everywhere)
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	newPod(n, "default", "first").mustStart(ref, "Pulled")
	var wg sync.WaitGroup
	for i := range 40 {
		p := newPod(n, "default", fmt.Sprintf("pod-%d", i))
		policy := "IfNotPresent"
		if i%2 == 1 {
			policy = "Never"
		}
		wg.Go(func() {
			_, err := p.starts(policy, ref)
			if policy == "Never" && errors.Is(err, errNeverPull) {
				_, err = p.starts(policy, ref)
			}
			if err != nil {
				t.Errorf("%s gets %v", p.name, err)
			}
		})
	}
	wg.Wait()
}
