// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// patient is the time for a check. A pod that has waited for half of it has waited for
// the registry, and not for a busy machine.
const patient = time.Minute

var patience = nodetest.Section(nodetest.IfDigestChanged, fmt.Sprintf("verify_timeout = %q", patient))

// hurried is the hint of the pod that finds out that a registry is in trouble.
var hurried = node.Hint("verify-timeout", "4s")

// inTrouble pulls an image that is there from a registry in trouble.
func inTrouble(n *nodetest.Node, ref string, opts ...node.PullOption) {
	n.T.Helper()
	mark := n.Mark()
	n.MustPull(ref, opts...)
	nodetest.Want(n.T, "outcome", n.Decision(mark, ref).Outcome, "UsedCached")
}

// wantPulled pushes a new image to a registry that has recovered, and holds that the next
// pod gets it: when probes from before have ended, and their verdicts do not count any more.
// That pod has the registry probed, and waits for the answer, but not for long: where the
// machine is too busy for that, the image is that of the next pod after the answer.
func wantPulled(n *nodetest.Node, ref, pushed string) {
	n.T.Helper()
	d := n.Push(pushed, nodetest.Image(2))
	<-time.After(health.ProbeTime + health.Fresh)
	mark := n.Mark()
	n.MustPull(ref)
	first := n.Decision(mark, ref)
	if strings.Contains(first.Tried, ": not asked, in trouble") {
		nodetest.Eventually(n.T, "the trouble has ended", func() bool {
			return !strings.Contains(n.Command("status", "-o", "json").Stdout, "host_in_trouble")
		})
		mark = n.Mark()
		n.MustPull(ref)
		first = n.Decision(mark, ref)
	}
	nodetest.Want(n.T, "outcome of the first pod", first.Outcome, "Pulled")
	nodetest.Want(n.T, "target", n.Target(ref), d)
}

// TestRecovery holds that the second pod of a registry in trouble does not wait, and that
// the first one after its recovery gets the new image.
func TestRecovery(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*resolvertest.Registry) error{
		"hangs":    func(r *resolvertest.Registry) error { r.Hang(resolvertest.All); return nil },
		"swallows": (*resolvertest.Registry).Swallow,
		"503": func(r *resolvertest.Registry) error {
			r.Status(resolvertest.All, http.StatusServiceUnavailable)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, patience)
			n.Push("app:1", nodetest.Image(1))
			ref := nodetest.Named("app:1")
			n.MustPull(ref)
			n.Must(fault(n.Registry))
			inTrouble(n, ref, hurried)
			began := time.Now()
			inTrouble(n, ref)
			if took := time.Since(began); took > patient/2 {
				t.Errorf("the second pod waited %v", took)
			}
			// A connection that was just made may still be closing.
			nodetest.Eventually(t, "the registry listens again", func() bool { return n.Registry.Restore() == nil })
			wantPulled(n, ref, "app:1")
		})
	}
}

// TestStormOnADeadRegistry holds that one pod waits for a registry that is down, and that
// the first one after its recovery gets the new image.
func TestStormOnADeadRegistry(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, patience)
	const pods = 20
	ref := func(i int) string { return nodetest.Named(fmt.Sprintf("app%d:1", i)) }
	for i := range pods {
		n.Push(fmt.Sprintf("app%d:1", i), nodetest.Image(1))
		n.MustPull(ref(i))
	}
	n.Registry.Hang(resolvertest.All)
	for i := range pods {
		var opts []node.PullOption
		if i == 0 {
			opts = append(opts, hurried)
		}
		mark := n.Mark()
		began := time.Now()
		n.MustPull(ref(i), opts...)
		nodetest.Want(t, "outcome", n.Decision(mark, ref(i)).Outcome, "UsedCached")
		nodetest.Want(t, "class", n.Decision(mark, ref(i)).Class, "unreachable")
		if took := time.Since(began); i > 0 && took > patient/2 {
			t.Errorf("pod %d waited %v", i, took)
		}
	}
	n.Restore()
	wantPulled(n, ref(1), "app1:1")
}
