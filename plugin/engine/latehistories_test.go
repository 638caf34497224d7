// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// words are the last ones of the registry, and of anybody, that were acted upon: by kind of check, and by holder of a
// proof.
type words map[string]time.Time

func (w words) add(kind string, registrys bool, at time.Time) {
	for _, key := range map[bool][]string{true: {kind, kind + " of the registry"}, false: {kind}}[registrys] {
		if at.After(w[key]) {
			w[key] = at
		}
	}
}

// of returns what a record tells of the same.
func (w words) of(state store.State, now time.Time) words {
	told, registry := words{}, func(host string) bool { return host == "registry.test" }
	for kind, with := range map[string]policy.CheckWith{"check": policy.Head, "manifest": policy.Manifest} {
		told[kind], told[kind+" of the registry"] = checkedAt(state, now, with, anyHost), checkedAt(state, now, with, registry)
	}
	for _, f := range []store.Fingerprint{alice, bob} {
		for _, proof := range state.Proofs(f) {
			told.add(string(f), registry(proof.By), proof.At)
		}
	}
	return told
}

// lateHistory is a random history of answers of three hosts, of which some are acted upon later than others that came
// after them.
type lateHistory struct {
	*testing.T
	*rand.Rand
	ctx    context.Context
	store  *store.Store
	engine *Engine
	late   []answer
	want   map[string]words // by name
	told   []string
}

// answer is one of any host, which has just come.
func (h *lateHistory) answer() answer {
	host := []string{"registry.test", "m1.test", "m2.test"}[h.IntN(3)]
	a := answer{repository: repository, verified: store.Verified{Digest: first.Digest, At: time.Now(), By: host, Origin: host == "registry.test"}}
	if h.IntN(3) == 0 {
		a.verified.Read = store.Reading{At: a.verified.At, By: host}
	}
	a.proved = []store.Fingerprint{[]store.Fingerprint{alice, bob}[h.IntN(2)]}
	a.proves = func(store.Fingerprint, digest.Digest, bool) bool { return true }
	if !a.verified.Origin && h.IntN(3) == 0 {
		a.originFailed = failure.Unreachable
	}
	return a
}

// act acts upon an answer, as a check or a comparison does, and notes what it says.
func (h *lateHistory) act(a answer, names ...string) {
	compared := h.IntN(4) == 0
	h.told = append(h.told, fmt.Sprintf("%s: the answer of %s by %s, in need %q, for %s, on %d names, compared %v",
		time.Now().Format(time.TimeOnly), a.verified.At.Format(time.TimeOnly), a.verified.By, a.originFailed, a.proved[0], len(names), compared))
	if compared {
		h.engine.markPulled(h.ctx, first.Digest, names, func(before store.State) store.State {
			return h.engine.pulledState(a, before)
		})
	} else {
		h.engine.markConfirmed(h.ctx, a, names...)
	}
	for _, n := range names {
		if a.originFailed == failure.None {
			h.want[n].add("check", a.verified.Origin, a.verified.At)
			h.want[n].add("manifest", a.verified.Origin, a.verified.Read.At)
		}
		h.want[n].add(string(a.proved[0]), a.verified.Origin, a.verified.At)
	}
}

// TestLateHistories holds that no word which was acted upon is lost by another one, in whichever order they came,
// as far as the last one of the registry, and of anybody, go.
func TestLateHistories(t *testing.T) {
	canonical := repository + "@" + first.Digest.String()
	for seed := range uint64(300) {
		synctest.Test(t, func(t *testing.T) {
			record := cachedImage(first, time.Now())
			n := &node{remote: first, record: record}
			h := &lateHistory{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), engine: n.engine(rule(`policy = "IfDigestChanged"`)), want: map[string]words{}}
			h.ctx, h.store = storeOf(t, record.State)
			onStore(h.engine, h.store)
			for _, n := range []string{name, canonical} {
				h.want[n] = words{}.of(record.State, time.Now())
			}
			for range 14 {
				time.Sleep(time.Minute)
				a := h.answer()
				if h.IntN(2) == 0 {
					h.late = append(h.late, a)
					continue
				}
				if len(h.late) > 0 && h.IntN(2) == 0 {
					i := h.IntN(len(h.late))
					a, h.late[i] = h.late[i], a
				}
				h.act(a, []string{canonical, name}[:1+min(1, h.IntN(4))]...)
				if h.IntN(2) == 0 {
					time.Sleep(time.Second) // it is written
				}
				for n, want := range h.want {
					got, err := h.store.Get(h.ctx, n)
					if err != nil {
						t.Fatal(err)
					}
					told := want.of(got.State, time.Now())
					for what, at := range want {
						if !told[what].Equal(at.Truncate(time.Second)) {
							t.Fatalf("seed %d, %s: the last %s is of %s, want %s:\n%v", seed, n, what, told[what], at, h.told)
						}
					}
				}
			}
		})
	}
}
