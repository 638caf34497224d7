// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"errors"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/opencontainers/go-digest"
)

const blob = "blob://sha256:1"

// pulls makes lockers of pulls that take turns.
type pulls struct{ turns turns }

func (p *pulls) of(repository, caller string) *locker {
	return newLocker(With(context.Background(), Source{Repository: repository, Caller: caller}.Scope()), &p.turns, time.Minute)
}

// waits returns how long a pull waits for a turn, in which all pulls unpack the same if nothing else is known. It does not give it back.
func waits(t *testing.T, l *locker, key string) time.Duration {
	t.Helper()
	l.layers.know(key)
	began := time.Now()
	if err := l.Lock(t.Context(), key); err != nil {
		t.Error(err)
	}
	return time.Since(began)
}

// know has a pull know that it unpacks something for that key, the same as all others.
func (l *layers) know(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.snapshots == nil {
		l.snapshots = map[digest.Digest]unpacked{}
	}
	if chain := digest.Digest(path.Base(key)); l.snapshots[chain] == (unpacked{}) {
		l.snapshots[chain] = unpacked{all: "the same"}
	}
}

func TestLocker(t *testing.T) {
	for what, tc := range map[string]struct {
		repository, caller string
		want               time.Duration
	}{
		"the same source":    {"registry.test/app", "alice", time.Hour},
		"another repository": {"registry.test/other", "alice", time.Minute},
		"another caller":     {"registry.test/app", "bob", 0},
		"another registry":   {"other.test/app", "alice", 0},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p pulls
				first, second := p.of("registry.test/app", "alice"), p.of(tc.repository, tc.caller)
				waits(t, first, blob)
				done := make(chan struct{})
				go func() {
					defer close(done)
					if got := waits(t, second, blob); got != tc.want {
						t.Errorf("waited %v, want %v", got, tc.want)
					}
					second.Unlock(blob)
				}()
				time.Sleep(time.Hour)
				first.Unlock(blob)
				<-done
			})
		})
	}
}

// The patience of a pull is one for all that it waits for, and counts from the
// first wait.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		slow, pull := p.of("registry.test/slow", "alice"), p.of("registry.test/app", "alice")
		keys := []string{"a", "b", "c"}
		for _, key := range keys {
			waits(t, slow, key)
		}
		time.Sleep(time.Hour)
		waits(t, pull, "free")
		time.AfterFunc(45*time.Second, func() { slow.Unlock("a") })
		for i, want := range []time.Duration{45 * time.Second, 15 * time.Second, 0} {
			if got := waits(t, pull, keys[i]); got != want {
				t.Errorf("waited %v for %s, want %v", got, keys[i], want)
			}
		}
		for _, key := range []string{"a", "b", "c", "free"} {
			pull.Unlock(key)
		}
		slow.Unlock("b")
		slow.Unlock("c")
		if len(pull.held) > 0 || len(slow.held) > 0 {
			t.Errorf("%v and %v are left", pull.held, slow.held)
		}
		if got := waits(t, p.of("registry.test/app", "alice"), "b"); got != 0 {
			t.Errorf("a turn was not passed on: %v", got)
		}
	})
}

// A pull that fetches something by urls has no turn of the registry any more, whichever it had,
// or waits for.
func TestFollowedURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		registry := p.of("registry.test/slow", "alice")
		waits(t, registry, "busy")
		theirs, pull := p.of("registry.test/theirs", "alice"), p.of("registry.test/app", "alice")
		waits(t, theirs, "sn://sha256:1")
		waits(t, theirs, blob)
		done := make(chan struct{})
		go func() {
			defer close(done)
			waits(t, theirs, "busy")
		}()
		time.Sleep(time.Second)
		ctx, view := newContents(t)
		c := view(alice)
		c.followsURLs = theirs.leaveRegistry
		from := desc
		w, err := c.Writer(ctx, content.WithRef("registry"), content.WithDescriptor(from))
		check(t, err)
		check(t, w.Close())
		if len(theirs.ofRegistry) != 2 {
			t.Error("the pull has left the registry, of which it fetches something")
		}
		from.URLs = []string{"https://theirs.test/layer"}
		w, err = c.Writer(ctx, content.WithRef("url"), content.WithDescriptor(from))
		check(t, err)
		check(t, w.Close())
		registry.Unlock("busy")
		<-done
		waits(t, theirs, "later")
		for _, key := range []string{"sn://sha256:1", blob, "busy", "later"} {
			if got := waits(t, pull, key); got != 0 {
				t.Errorf("waited %v for %s", got, key)
			}
		}
		for _, key := range []string{"sn://sha256:1", blob, "busy", "later"} {
			theirs.Unlock(key)
			pull.Unlock(key)
		}
		wantFree(t, &p, theirs, pull, registry)
	})
}

// While a pull waits for another one of its source, which may follow urls, it holds up no others.
func TestWaitingForTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		byURL, theirs := p.of("registry.test/theirs", "alice"), p.of("registry.test/theirs", "alice")
		waits(t, byURL, blob)
		byURL.leaveRegistry()
		waits(t, theirs, "sn://sha256:1")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if got := waits(t, theirs, blob); got != time.Hour {
				t.Errorf("waited %v for the same source", got)
			}
		}()
		time.Sleep(time.Second)
		waits(t, theirs, "meanwhile")
		pull := p.of("registry.test/app", "alice")
		for _, key := range []string{"sn://sha256:1", blob, "meanwhile"} {
			if got := waits(t, pull, key); got != 0 {
				t.Errorf("waited %v for %s", got, key)
			}
			pull.Unlock(key)
		}
		time.Sleep(time.Hour - time.Second)
		byURL.Unlock(blob)
		<-done
		if got := waits(t, pull, blob); got != time.Minute {
			t.Errorf("waited %v for what comes from the registry", got)
		}
		for _, key := range []string{"sn://sha256:1", "meanwhile", blob} {
			theirs.Unlock(key)
		}
		pull.Unlock(blob)
		wantFree(t, &p, byURL, theirs, pull)
	})
}

// A pull of an image that has a layer twice waits for itself, and keeps its turns.
func TestLayerTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulls
		twice := p.of("registry.test/app", "alice")
		waits(t, twice, "sn://sha256:1")
		waits(t, twice, blob)
		time.AfterFunc(time.Second, func() { twice.Unlock(blob) })
		done := make(chan struct{})
		go func() {
			defer close(done)
			if got := waits(t, p.of("registry.test/other", "alice"), "sn://sha256:1"); got != time.Minute {
				t.Errorf("another pull waited %v", got)
			}
		}()
		if got := waits(t, twice, blob); got != time.Second {
			t.Errorf("waited %v for itself", got)
		}
		<-done
		twice.Unlock(blob)
		twice.Unlock("sn://sha256:1")
	})
}

// wantFree holds that pulls have given all turns back.
func wantFree(t *testing.T, p *pulls, all ...*locker) {
	t.Helper()
	for _, l := range all {
		if len(l.held) > 0 || len(l.ofRegistry) > 0 {
			t.Errorf("%v and %v are left", l.held, l.ofRegistry)
		}
	}
	for _, key := range []string{blob, "sn://sha256:1", "busy", "later", "meanwhile"} {
		if got := waits(t, p.of("registry.test/app", "alice"), key); got != 0 {
			t.Errorf("%s was not passed on: %v", key, got)
		}
	}
}

// A pull that ends while it waits holds nothing, whomever it waits for.
func TestLockerCanceled(t *testing.T) {
	for _, repository := range []string{"registry.test/app", "registry.test/other"} {
		synctest.Test(t, func(t *testing.T) {
			var p pulls
			first, second := p.of("registry.test/app", "alice"), p.of(repository, "alice")
			waits(t, first, blob)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := second.Lock(ctx, blob); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			first.Unlock(blob)
			if got := waits(t, p.of(repository, "alice"), blob); got != 0 || len(second.held) > 0 {
				t.Errorf("the turn is still held: %v", second.held)
			}
		})
	}
}
