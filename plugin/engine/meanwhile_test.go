// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// arrival is a request that comes while others are under way.
type arrival struct {
	outcome Outcome
	took    time.Duration
}

// arrive begins a request and returns when it waits for something.
func arrive(t *testing.T, e *Engine, req Request) <-chan arrival {
	t.Helper()
	came := time.Now()
	result := make(chan arrival, 1)
	go func() {
		o, _ := e.Ensure(t.Context(), req)
		result <- arrival{o, time.Since(came)}
	}()
	synctest.Wait()
	return result
}

// push lets the registry have another image.
func (n *node) push(desc ocispec.Descriptor) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.remote = desc
}

// A request that comes while another is downloading asks for itself, waits for
// that download, and gets what its own answer says: the same image without a
// download, or one that was pushed meanwhile by a download of its own.
func TestWhoComesAfterTheAnswerAsksAnew(t *testing.T) {
	for what, tc := range map[string]struct {
		pushed ocispec.Descriptor
		kind   Kind
		pulls  int
	}{
		"same digest":  {first, Unchanged, 1},
		"newer digest": {second, Pulled, 2},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{remote: first, onPull: func() { time.Sleep(time.Minute) }}
				e := n.engine("# none")
				e.Observe = nil
				one := arrive(t, e, n.request(nil))
				time.Sleep(2 * time.Second)
				n.push(tc.pushed)
				two := arrive(t, e, n.request(nil))
				if a := <-one; a.outcome.Kind != Pulled || a.outcome.ImageID != imageID(first).String() || a.took != time.Minute {
					t.Errorf("the first: %s (%v) after %s", a.outcome.Kind, a.outcome.Err, a.took)
				}
				a := <-two
				if a.outcome.Kind != tc.kind || a.outcome.ImageID != imageID(tc.pushed).String() || a.outcome.Coalesced {
					t.Errorf("the second: %s (%v), coalesced %v", a.outcome.Kind, a.outcome.Err, a.outcome.Coalesced)
				}
				if n.checks != 2 || n.pulls != tc.pulls {
					t.Errorf("%d checks, %d pulls", n.checks, n.pulls)
				}
			})
		})
	}
}

// A check that fails costs those who came with it one time-out together, and
// those who come when most of its time is over one of their own, whole.
func TestNobodyInheritsATimeoutNearItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{checkFails: failure.Unreachable, onCheck: func() { time.Sleep(5 * time.Second) }}
		e := n.engine("# none") // verify_timeout is 5s
		e.Observe = nil
		var storm []<-chan arrival
		for range 100 {
			storm = append(storm, arrive(t, e, n.request(nil)))
		}
		time.Sleep(4 * time.Second)
		late := arrive(t, e, n.request(nil))
		for _, one := range storm {
			if a := <-one; a.took != 5*time.Second || a.outcome.Class != failure.Unreachable {
				t.Errorf("%s after %s", a.outcome.Class, a.took)
			}
		}
		if n.checks != 2 {
			t.Errorf("%d checks for the storm and the late one", n.checks)
		}
		n.mu.Lock()
		n.checkFails, n.remote = failure.None, first
		n.mu.Unlock()
		if a := <-late; a.took != 5*time.Second || a.outcome.Kind != Pulled {
			t.Errorf("the late one: %s (%v) after %s", a.outcome.Kind, a.outcome.Err, a.took)
		}
	})
}

// A line of requests whose download comes to nothing waits for the one under way
// and for one more, not for one each.
func TestLineSharesAFailedDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, now), pullFails: failure.Unreachable, onPull: func() { time.Sleep(time.Minute) }}
		e := n.engine(rule(`policy = "IfDigestChanged"`))
		e.Observe = nil
		var line []<-chan arrival
		for range 10 {
			line = append(line, arrive(t, e, n.request(nil)))
			time.Sleep(time.Second)
		}
		for i, one := range line {
			a := <-one
			if a.outcome.Kind != UsedCached || a.outcome.Class != failure.Unreachable || len(a.outcome.Attempts) != 1 || a.took > 2*time.Minute {
				t.Errorf("%d: %s (%s, %v) after %s", i, a.outcome.Kind, a.outcome.Class, a.outcome.Attempts, a.took)
			}
		}
		if n.pulls != 2 {
			t.Errorf("%d pulls", n.pulls)
		}
		// Who comes later tries again.
		n.mu.Lock()
		n.pullFails = failure.None
		n.mu.Unlock()
		if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Pulled {
			t.Errorf("afterwards: %s, %v", o.Kind, err)
		}
	})
}

// A request that shares a check is told of its own rule.
func TestSharedErrorNamesItsOwnRule(t *testing.T) {
	rules := "[[rule]]\nimages = [\"**\"]\nnamespaces = [\"a\"]\nSOURCES\n[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\nSOURCES\n"
	for what, sources := range map[string]string{"no host": `allowed_sources = ["mirror.test"]`, "failed": `policy = "Always"`} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{checkFails: failure.Unreachable}
				gate := make(chan struct{})
				n.onOpen = func() { <-gate }
				e := n.engine(strings.ReplaceAll(rules, "SOURCES", sources))
				e.Observe = nil
				results := map[string]<-chan arrival{}
				for i, namespace := range []string{"a", "b"} {
					req := n.request(nil)
					req.Namespace = namespace
					results[[]string{"rules.toml#1", "rules.toml#2"}[i]] = arrive(t, e, req)
				}
				close(gate)
				coalesced := 0
				for own, result := range results {
					a := <-result
					if a.outcome.Coalesced {
						coalesced++
					}
					other := map[string]string{"rules.toml#1": "rules.toml#2", "rules.toml#2": "rules.toml#1"}[own]
					var failed *Error
					if err := a.outcome.Err; !errors.As(err, &failed) || !strings.Contains(err.Error(), own) || strings.Contains(err.Error(), other) {
						t.Errorf("%s: %v", own, err)
					}
				}
				if coalesced != 1 {
					t.Errorf("%d shared the check", coalesced)
				}
			})
		})
	}
}

// remove takes the image off the node, as garbage collection does.
func (n *node) remove() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.record = nil
}

// An image that is removed while the registry is asked is pulled, and does not
// do for a fallback.
func TestRemovedWhileTheRegistryIsAsked(t *testing.T) {
	for _, directives := range []string{`policy = "Always"`, `policy = "IfDigestChanged"`} {
		n := &node{remote: first, record: cachedImage(first, now)}
		n.onCheck = n.remove
		o, err := n.engine(rule(directives)).Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != Pulled || o.Reason != ReasonAbsent || n.pulls != 1 || n.record == nil {
			t.Errorf("%s: %s (%s) after %d pulls, %v", directives, o.Kind, o.Reason, n.pulls, err)
		}
		n = &node{checkFails: failure.Unreachable, record: cachedImage(first, now)}
		n.onCheck = n.remove
		o, err = n.engine(rule(directives)).Ensure(t.Context(), n.request(nil))
		if err == nil || o.Kind != Failed || o.Class != failure.Unreachable || len(n.stale) != 0 {
			t.Errorf("%s: %s (%s) without an image, %v", directives, o.Kind, o.Reason, err)
		}
		n = &node{remote: second, pullFails: failure.Unreachable, record: cachedImage(first, now)}
		n.onPull = n.remove
		if o, err = n.engine(rule(directives)).Ensure(t.Context(), n.request(nil)); err == nil || o.Kind != Failed {
			t.Errorf("%s: %s (%s) after a pull failed, %v", directives, o.Kind, o.Reason, err)
		}
	}
}

// So is one whose caller had to prove something, where its name has another
// image meanwhile: the registry said nothing of that one.
func TestReplacedWhileTheRegistryIsAsked(t *testing.T) {
	third := image("third")
	n := &node{remote: second, record: restricted(now, alice)}
	n.onCheck = func() {
		if n.checks == 2 { // about the cached digest
			r := *cachedImage(third, now)
			r.Restricted = true
			n.record = &r
		}
	}
	req := n.request(nil)
	req.Caller = bob
	o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), req)
	if err != nil || o.Kind != Pulled || o.ImageID != imageID(second).String() {
		t.Errorf("%s (%s), %v", o.Kind, o.Reason, err)
	}
}

// A registry may say no more of a cached image than its digest. Where that image is
// removed meanwhile it is asked for the rest: no record gets a size that is not right.
func TestRemovedWithoutADescriptor(t *testing.T) {
	for what, known := range map[string]ocispec.Descriptor{
		"no size":       {Digest: first.Digest, MediaType: first.MediaType},
		"no media type": {Digest: first.Digest, Size: first.Size},
	} {
		n := &node{record: cachedImage(first, now), remote: known}
		n.onCheck = func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.record = nil
			if n.checks == 2 && n.query.Known == "" {
				n.remote = first
			}
		}
		o, err := n.engine("# none").Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != Pulled || n.pulls != 1 || n.record == nil || !reflect.DeepEqual(n.record.Target, first) {
			t.Errorf("%s: %s, %v, %d pulls, record %+v", what, o.Kind, err, n.pulls, n.record)
		}
	}
}
