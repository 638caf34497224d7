// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is records, their sizes, and CRI's index of them.
type fake struct {
	mu      sync.Mutex
	records map[string]store.Record
	sizes   map[digest.Digest]int64
	shown   map[string]bool // what CRI knows to be pinned
	lists   int
	writes  int
	fails   error // of lists
	deaf    bool  // CRI does not hear
	rules   func(tag string) bool
}

func newFake() *fake {
	return &fake{records: map[string]store.Record{}, sizes: map[digest.Digest]int64{}, shown: map[string]bool{}, rules: func(string) bool { return true }}
}

// add adds an image that was just pulled.
func (f *fake) add(name string, bytes int64, pin store.Pin) {
	f.mu.Lock()
	defer f.mu.Unlock()
	target := ocispec.Descriptor{Digest: digest.FromString(name)}
	f.sizes[target.Digest] = bytes
	f.records[name] = store.Record{Name: name, Target: target, State: store.State{PulledAt: time.Now().Truncate(time.Second), Pin: pin}}
	f.shown[name] = pin.Own
}

func (f *fake) Get(ctx context.Context, name string) (store.Record, error) {
	if _, ok := namespaces.Namespace(ctx); !ok {
		return store.Record{}, errors.New("no namespace")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.records[name]
	if !ok {
		return r, errdefs.ErrNotFound
	}
	return r, nil
}

func (f *fake) Pins(context.Context) (pins []store.Record, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	for _, name := range slices.Sorted(maps.Keys(f.records)) {
		if r := f.records[name]; r.Pin.Own {
			pins = append(pins, r)
		}
	}
	return pins, f.fails
}

func (f *fake) SetPins(_ context.Context, changes []store.PinChange) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	for _, c := range changes {
		r := f.records[c.Name]
		r.Pin = c.Pin
		f.records[c.Name] = r
	}
	return nil
}

func (f *fake) Size(_ context.Context, target ocispec.Descriptor) (digest.Digest, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return target.Digest, f.sizes[target.Digest], nil
}

func (f *fake) UpdateImage(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deaf {
		return errors.New("CRI is deaf")
	}
	f.shown[name] = f.records[name].Pin.Own
	return nil
}

func (f *fake) setRules(rules func(string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
}

func (f *fake) mayPin(tag string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rules(tag)
}

// pinned names what CRI shows as pinned.
func (f *fake) pinned() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, name := range slices.Sorted(maps.Keys(f.shown)) {
		if f.shown[name] {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// inBubble starts a keeper with a clock of its own; settle lets it work for a while.
func inBubble(t *testing.T, f *fake, limit int64, run func(k *Keeper, released *[]Reason, settle func())) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		var released []Reason
		k := Start(Options{
			Records: f, Sizes: f, Index: f, MayPin: f.mayPin, Limit: limit, Now: time.Now,
			Released: func(r Reason) { released = append(released, r) },
		})
		run(k, &released, func() { time.Sleep(2 * retryInterval); synctest.Wait() })
		_ = k.Close()
	})
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Nothing is pinned or looked at without a word, and an image that is released is not
// pinned again before it is used.
func TestNoFlapping(t *testing.T) {
	t.Parallel()
	f := newFake()
	inBubble(t, f, 10, func(k *Keeper, released *[]Reason, settle func()) {
		for _, name := range []string{"r.test/a:1", "r.test/b:1", "r.test/c:1"} {
			f.add(name, 5, store.Pin{})
			k.Keep(t.Context(), name)
			time.Sleep(time.Second)
		}
		settle()
		want(t, "pinned", f.pinned(), "r.test/b:1 r.test/c:1")
		want(t, "released", *released, []Reason{ForRoom})
		lists := f.lists
		for range 100 {
			k.Keep(t.Context(), "r.test/b:1")
			k.Keep(t.Context(), "r.test/c:1")
			settle()
		}
		want(t, "looks at all records", f.lists, lists)
		k.ReviewAll()
		settle()
		want(t, "pinned after a change of the rules", f.pinned(), "r.test/b:1 r.test/c:1")
		k.Keep(t.Context(), "r.test/a:1")
		settle()
		want(t, "pinned after a use", f.pinned(), "r.test/a:1 r.test/c:1")
	})
}

// A pull pins by itself, and what is there is weighed all the same.
func TestPinnedByPull(t *testing.T) {
	t.Parallel()
	f := newFake()
	inBubble(t, f, 10, func(k *Keeper, released *[]Reason, settle func()) {
		for name, size := range map[string]int64{"r.test/a:1": 5, "r.test/large:1": 11} {
			f.add(name, size, store.Pin{Own: true, Used: time.Now()})
			k.Keep(t.Context(), name)
		}
		settle()
		want(t, "pinned", f.pinned(), "r.test/a:1")
		want(t, "released", *released, []Reason{TooLarge})
		for range 3 {
			f.add("r.test/large:1", 11, store.Pin{Own: true, Used: time.Now()})
			k.Keep(t.Context(), "r.test/large:1")
			settle()
		}
		want(t, "pinned", f.pinned(), "r.test/a:1")
		want(t, "released", *released, []Reason{TooLarge})
	})
}

// Rules release what they do not pin any more, and nothing else.
func TestReview(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.add("r.test/a:1", 5, store.Pin{Own: true})
	f.add("r.test/b:1", 5, store.Pin{Own: true})
	f.add("r.test/c:1", 5, store.Pin{Own: true})
	f.setRules(func(tag string) bool { return tag != "r.test/a:1" })
	inBubble(t, f, 0, func(k *Keeper, released *[]Reason, settle func()) {
		settle()
		want(t, "pinned after the start", f.pinned(), "r.test/b:1 r.test/c:1")
		f.setRules(func(string) bool { return false })
		k.Review("r.test/c:1")
		k.Review("r.test/unknown:1")
		settle()
		want(t, "pinned after a decision", f.pinned(), "r.test/b:1")
		k.Keep(t.Context(), "r.test/a:1") // decided under the rules of before
		settle()
		want(t, "pinned after a late decision", f.pinned(), "r.test/b:1")
		k.ReviewAll()
		settle()
		want(t, "pinned after a change", f.pinned(), "")
		want(t, "released", *released, []Reason{ByRule, ByRule, ByRule})
	})
}

// A database that fails loses no wish, and CRI is told until it has heard.
func TestFailures(t *testing.T) {
	t.Parallel()
	f := newFake()
	inBubble(t, f, 0, func(k *Keeper, _ *[]Reason, settle func()) {
		settle()
		f.add("r.test/a:1", 5, store.Pin{})
		f.mu.Lock()
		f.fails, f.deaf = errors.New("broken"), true
		f.mu.Unlock()
		k.Keep(t.Context(), "r.test/a:1")
		settle()
		f.mu.Lock()
		f.fails = nil
		f.mu.Unlock()
		settle()
		want(t, "pinned while CRI is deaf", f.pinned(), "")
		f.mu.Lock()
		f.deaf = false
		f.mu.Unlock()
		k.ReviewAll()
		settle()
		want(t, "pinned", f.pinned(), "r.test/a:1")
	})
}

// A use costs a write an hour at most, and the last one is written at the end.
func TestUses(t *testing.T) {
	t.Parallel()
	f := newFake()
	var last time.Time
	inBubble(t, f, 0, func(k *Keeper, _ *[]Reason, settle func()) {
		f.add("r.test/a:1", 5, store.Pin{})
		for began := time.Now(); time.Since(began) < 3*time.Hour+30*time.Minute; settle() {
			k.Keep(t.Context(), "r.test/a:1")
			last = time.Now()
		}
		want(t, "writes", f.writes, 4)
	})
	want(t, "writes at the end", f.writes, 5)
	want(t, "last use", f.records["r.test/a:1"].Pin.Used, last.Truncate(time.Second))
}

// However many tags without a pin are used, the uses of pinned images are remembered.
func TestUsesOfOthersAreNotRemembered(t *testing.T) {
	t.Parallel()
	f := newFake()
	inBubble(t, f, 10, func(k *Keeper, _ *[]Reason, settle func()) {
		for _, name := range []string{"r.test/a:1", "r.test/b:1"} {
			f.add(name, 5, store.Pin{})
			k.Keep(t.Context(), name)
			settle()
		}
		k.Used("r.test/a:1")
		for i := range 2 * maxRemembered {
			k.Used(fmt.Sprintf("of.a.pod.test/app:%d", i))
		}
		f.add("r.test/c:1", 5, store.Pin{})
		k.Keep(t.Context(), "r.test/c:1")
		settle()
		want(t, "pinned", f.pinned(), "r.test/a:1 r.test/c:1")
	})
}
