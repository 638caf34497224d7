// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package reality

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"golang.org/x/sync/errgroup"

	"github.com/pullwarden/pullwarden/integration/fleet"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const (
	nodes  = 20
	images = 4
	// roundTrip is what a step has that is measured: long enough that the work of a busy
	// machine is little beside it. The shortest of many starts counts. It is longer than a
	// used connection may be silent: each daemon asks once more, and then knows.
	roundTrip = 3 * time.Second
)

// world is a fleet, of the model or real.
type world interface {
	push(number int)
	roundTrip(d time.Duration)
	fail()
	start(times int, numbers ...int) fleet.Step
}

// story is what happens to both, by its steps.
func story(w world) map[string]fleet.Step {
	all := []int{0, 1, 2, 3}
	steps := map[string]fleet.Step{"cold": w.start(1, all...), "unchanged": w.start(5, all...)}
	w.push(0)
	steps["changed"] = w.start(1, all...)
	w.roundTrip(roundTrip)
	steps["far away"] = w.start(3, all[0])
	w.roundTrip(0)
	w.fail()
	steps["down"] = w.start(2, all...)
	return steps
}

// TestModelIsTrue holds that twenty daemons ask a registry as often as those of the model
// do, within a tenth for each kind of request, and that their pods wait as long.
func TestModelIsTrue(t *testing.T) {
	model, daemons := modelled(t), story(newDaemons(t))
	for name, want := range model {
		got := daemons[name]
		if got.Failed != want.Failed || got.Fallback != want.Fallback {
			t.Errorf("%s: %d starts failed and %d fell back, in the model %d and %d", name, got.Failed, got.Fallback, want.Failed, want.Fallback)
		}
		if name == "far away" {
			want.Counts["checks"] += nodes // second tries, which the model's wire does not make
		}
		for _, kind := range []string{"challenges", "tokens", "checks", "manifests", "blobs"} {
			if name == "down" && kind == "checks" {
				continue // a probe that is quick spares a second try
			}
			if !near(float64(got.Counts[kind]), float64(want.Counts[kind])) {
				t.Errorf("%s: %d %s, in the model %d", name, got.Counts[kind], kind, want.Counts[kind])
			}
		}
		t.Logf("%s: daemons %+v, model %+v", name, got, want)
	}
	if got, want := daemons["far away"].Shortest, model["far away"].Shortest; !near(got.Seconds(), want.Seconds()) {
		t.Errorf("a start waits %v, in the model %v", got, want)
	}
	if got, want := total(daemons), total(model); !near(float64(got), float64(want)) {
		t.Errorf("%d requests, in the model %d", got, want)
	}
}

// near reports whether two numbers agree within a tenth.
func near(a, b float64) bool { return a <= b*1.1 && a >= b*0.9 }

// total is the number of requests in all steps, but for probes.
func total(steps map[string]fleet.Step) (n int) {
	for _, s := range steps {
		for _, kind := range []string{"challenges", "tokens", "checks", "manifests", "blobs"} {
			n += s.Counts[kind]
		}
	}
	return n
}

// modelled plays the story in the model.
func modelled(t *testing.T) (steps map[string]fleet.Step) {
	s := &fleet.Scenario{
		Nodes: nodes, Images: images,
		Registry: fleet.Profile{Rate: 1e6, Queue: time.Hour, Egress: 1e12, TokenTTL: time.Hour},
	}
	rules := "[[rule]]\nimages = [\"**\"]\npolicy = \"IfDigestChanged\"\nverify_timeout = \"2m\"\n"
	fleet.Play(t, s, fleet.Arm{Rules: rules}, func(script *fleet.Script) { steps = story(played{script}) })
	return steps
}

type played struct{ *fleet.Script }

func (p played) push(number int)           { p.Push(number) }
func (p played) roundTrip(d time.Duration) { p.RTT(d) }
func (p played) fail()                     { p.Fault(fleet.Fail) }
func (p played) start(times int, numbers ...int) fleet.Step {
	return p.Start(times, numbers...)
}

// daemons are real nodes and a real registry.
type daemons struct {
	t        *testing.T
	registry *resolvertest.Registry
	nodes    []*nodetest.Node
}

func newDaemons(t *testing.T) *daemons {
	d := &daemons{t: t, registry: nodetest.OpenToAll(t)}
	d.registry.SetTokenLifetime(time.Hour)
	d.registry.SetDelay(time.Nanosecond) // connections without any get none later
	for i := range nodes {
		n := nodetest.Prepare(t, nodetest.Section(`default_policy = "IfDigestChanged"`, `verify_timeout = "2m"`))
		n.Registry = d.registry
		d.nodes = append(d.nodes, n)
		if i > 0 {
			continue
		}
		for number := range images {
			n.Push(name(number), nodetest.Image(int64(number)))
		}
	}
	var starting errgroup.Group
	starting.SetLimit(2)
	for _, n := range d.nodes {
		starting.Go(func() error { return n.Node.Start(t.Context()) })
	}
	if err := starting.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, n := range d.nodes {
		n.Serve("registry.test", d.registry)
	}
	return d
}

func name(number int) string { return fmt.Sprintf("team/app-%d:1", number) }

// push adds a layer to an image: what nodes have of it stays.
func (d *daemons) push(number int) {
	top, err := nodetest.Image(1000).Layers()
	if err != nil {
		d.t.Fatal(err)
	}
	var changed v1.Image
	if changed, err = mutate.AppendLayers(nodetest.Image(int64(number)), top[0]); err != nil {
		d.t.Fatal(err)
	}
	d.nodes[0].Push(name(number), changed)
}

// roundTrip holds for the requests after the next one of each connection, which is made
// here.
func (d *daemons) roundTrip(rtt time.Duration) {
	d.registry.SetDelay(rtt)
	d.start(1, 0)
}

func (d *daemons) fail() { d.registry.Status(resolvertest.All, http.StatusServiceUnavailable) }

func (d *daemons) start(times int, numbers ...int) fleet.Step {
	d.registry.Forget()
	step := fleet.Step{Counts: map[string]int{}, Shortest: time.Hour}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range d.nodes {
		wg.Go(func() {
			for range times {
				for _, number := range numbers {
					began := time.Now()
					_, err := n.Pull(nodetest.Named(name(number)))
					took := time.Since(began)
					mu.Lock()
					step.Shortest = min(step.Shortest, took)
					if err != nil {
						step.Failed++
						d.t.Logf("%v", err)
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for _, r := range d.registry.Requests() {
		step.Counts[kindOf(r)]++
	}
	step.Fallback = d.fallbacks()
	return step
}

// kindOf is the name of the model's column for a request.
func kindOf(r resolvertest.Request) string {
	switch {
	case r.Part == resolvertest.Tokens:
		return "tokens"
	case r.Part == resolvertest.Blobs:
		return "blobs"
	case r.Part == resolvertest.Manifests && r.Status == http.StatusUnauthorized:
		return "challenges"
	case r.Part == resolvertest.Manifests && r.Method == http.MethodHead:
		return "checks"
	case r.Part == resolvertest.Manifests:
		return "manifests"
	}
	return "probes"
}

// fallbacks counts the decisions UsedCached since the last step.
func (d *daemons) fallbacks() (n int) {
	for _, node := range d.nodes {
		for _, decision := range node.Decisions(0, "") {
			if decision.Outcome == "UsedCached" {
				n++
			}
		}
	}
	return n
}
