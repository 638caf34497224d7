// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package histories holds a model of the contract against the built daemon, by
// random histories: pushes, rollbacks, deletions, refusals, outages, restarts,
// kills, removals, and pulls by several callers under all policies.
//
// The model is in model_test.go; it says what may come of a pull. A history that
// it does not explain is shrunk and shown, with the seed that makes it again:
//
//	go test ./integration/histories -rapid.seed=<seed>
package histories

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The defaults are those of a short run.
var (
	campaign = flag.Duration("histories.time", 0, "run histories for so long; 0: a fixed number of them")
	kills    = flag.Int("histories.kills", 0, "then kill the daemon in so many pulls")
)

const (
	shortRun = 15 // histories of a short run
	// shortSeed is that of a short run, which is the same each time; campaigns look
	// for what nobody has seen yet.
	shortSeed = 1
	batch     = 10 // histories between two looks at the clock
	steps     = 20 // of a history, on average
)

// TestHistories runs a fixed number of histories, or a campaign.
func TestHistories(t *testing.T) {
	ctx, stop := signal.NotifyContext(context.WithoutCancel(t.Context()), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n := startNode(ctx, t)
	r := &run{node: n, done: newTally(), seed: seed()}
	defer func() { fmt.Printf("seed %d: %v", r.seed, r.done) }()
	set(t, "rapid.nofailfile", "true")
	set(t, "rapid.steps", strconv.Itoa(steps))
	set(t, "rapid.shrinktime", "1m")
	if *campaign == 0 && *kills == 0 {
		if flag.Lookup("rapid.seed").Value.String() == "0" {
			r.seed = shortSeed
		}
		r.batch(ctx, t, shortRun, ofEverything)
		return
	}
	for end := time.Now().Add(*campaign); ctx.Err() == nil && time.Now().Before(end); {
		r.batch(ctx, t, batch, ofEverything)
	}
	for ctx.Err() == nil && r.done.killsInPulls() < *kills {
		r.batch(ctx, t, batch, ofKills)
	}
	if ctx.Err() != nil {
		t.Error("interrupted")
	}
}

// startNode starts a node that ends with the test.
func startNode(ctx context.Context, t *testing.T) *node {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// binary returns the path of the containerd under test.
func binary() (string, error) {
	path := os.Getenv("PULLWARDEN_CONTAINERD")
	if path == "" {
		path = "../../bin/containerd"
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no daemon to test: %w\nbuild it with: make build\nor name another one in PULLWARDEN_CONTAINERD", err)
	}
	if os.Geteuid() != 0 {
		return "", errors.New("the daemon mounts what it unpacks: run these tests as root")
	}
	return filepath.Abs(path)
}

// seed returns that of the flag -rapid.seed, or a random one.
func seed() uint64 {
	s, _ := strconv.ParseUint(flag.Lookup("rapid.seed").Value.String(), 10, 64)
	if s == 0 {
		s = uint64(rand.Uint32())
	}
	return s
}

// set sets a flag of rapid's, if the command line does not.
func set(t *testing.T, name, value string) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

// run is a run of histories on one node.
type run struct {
	node     *node
	done     *tally
	seed     uint64
	batches  uint64
	shortest []string // the steps of the shortest history that failed
}

// batch runs so many histories, and shrinks the first that fails.
func (r *run) batch(ctx context.Context, t *testing.T, histories int, of weights) {
	t.Helper()
	seed := r.seed + r.batches<<20
	r.batches++
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(histories), "rapid.seed": strconv.FormatUint(seed, 10)} {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if r.shortest != nil {
			fmt.Printf("\nthe shortest history that failed, from the seed %d of %s:\n%s\n\n", seed, of.name, strings.Join(r.shortest, "\n"))
		}
	}()
	rapid.Check(t, func(t *rapid.T) { r.history(ctx, t, of) })
}

// history runs one history, or nothing once the run is interrupted. It ends
// early then, but not in a step.
func (r *run) history(ctx context.Context, t *rapid.T, of weights) {
	if ctx.Err() != nil {
		return
	}
	within := context.WithoutCancel(ctx)
	rule := Rule{
		Policy: Always, Lenient: rapid.Bool().Draw(t, "lenient"), ByNamespace: rapid.Bool().Draw(t, "by namespace"),
		From: drawFrom(t), Authority: rapid.Bool().Draw(t, "authority"), Fresh: drawFresh(t),
	}
	h, err := begin(within, r.node, r.done, rapid.Bool().Draw(t, "basic"), rule)
	if err != nil {
		t.Fatalf("no history can begin: %v", err)
	}
	t.Cleanup(h.reg.Close)
	h.patience = 15 * time.Second // on a busy machine
	if r.shortest != nil {
		h.patience = time.Second // rapid tries many, and most fail
	}
	t.Repeat(map[string]func(*rapid.T){"step": func(t *rapid.T) {
		if o := of.draw(t); ctx.Err() == nil {
			if err := h.step(within, o); err != nil {
				r.fail(t, h, err)
			}
		}
	}})
	if err := h.end(within); err != nil {
		r.fail(t, h, err)
	}
}

// fail ends a history. The text of the error is for rapid, which shrinks a
// history as long as it stays the same.
func (r *run) fail(t *rapid.T, h *history, err error) {
	steps := append(h.steps, "=> "+err.Error())
	var v *violation
	if errors.As(err, &v) {
		steps = append(steps, v.details)
	}
	if r.shortest == nil || len(steps) <= len(r.shortest) {
		r.shortest = steps
	}
	t.Fatalf("%v", err)
}
