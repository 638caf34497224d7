// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"slices"
	"testing"
)

// The model allows that a caller who has left hears of the registry's trouble before, and writes
// nothing: the next check needs no request for its fallback.
func TestTroubleThatACallerWhoLeftHeardOf(t *testing.T) {
	reg := Registry{Rule: Rule{Policy: IfDigestChanged}}
	reg.Tag[0], reg.Pushed[0][1] = 1, true
	reg.Allowed[0] = Origin.of(Alice.holder())
	alice := Pull{Caller: Alice}
	var begun World
	begun.Node[0] = Image{Content: 1, Proofs: Origin.of(Alice.holder()), By: Origin}
	begun.Has[0][1] = Origin.of(Alice.holder()) | known | marked
	troubled := reg
	troubled.Trouble = Status503
	without, with := 0, 0
	for _, w := range cutShort(begun, begun.Pull(troubled, troubled, alice)) {
		if w.Node != begun.Node || w.Has != begun.Has {
			continue
		}
		without++
		if slices.ContainsFunc(w.Pull(reg, reg, alice), func(b Branch) bool { return b.Saw == Saw{UsedCached, Unavailable} }) {
			with++
		}
	}
	if without != 2 || with != 1 {
		t.Errorf("of %d ends without a write, %d know of the trouble", without, with)
	}
}

// The model allows that an open image is used where the registry is in trouble, and the mirror, which has a say in its
// place, has not that digest: nobody can say whose it is, whatever the registry would answer by now.
func TestOpenImageWhileTheRegistryIsInTrouble(t *testing.T) {
	reg := Registry{Trouble: Forbids, Mirror: true, Rule: Rule{From: FromOriginThenMirrors, Authority: true}}
	reg.Tag[0], reg.Pushed[0][2] = 2, true
	reg.Allowed[0] = Origin.of(Bob.holder())
	var w World
	w.Node[0] = Image{Content: 1, Open: true}
	w.Blamed.Host.add(Unreachable)
	all := w.Pull(reg, reg, Pull{Caller: Bob, Policy: IfNotPresent})
	if !slices.ContainsFunc(all, func(b Branch) bool { return b.Saw == Saw{Outcome: Present} }) {
		t.Errorf("allowed is %v", all)
	}
}

// The model allows that a kill leaves what a mirror has said in the place of the registry, and not that the image was used by
// that: these are two marks.
func TestKillBetweenTheMarksOfAFallback(t *testing.T) {
	reg := Registry{Trouble: Swallows, Mirror: true, Rule: Rule{From: FromOriginThenMirrors}}
	reg.Tag[0], reg.Pushed[0][1] = 1, true
	reg.Allowed[0] = Origin.of(Alice.holder())
	var begun World
	begun.Node[0] = Image{Content: 1, Proofs: Origin.of(Alice.holder()), By: Origin}
	begun.Has[0][1] = Origin.of(Alice.holder()) | known | marked
	found := 0
	for _, b := range begun.Pull(reg, reg, Pull{Caller: Alice, Policy: Always}) {
		if b.Saw != (Saw{UsedCached, MirrorFallback}) {
			continue
		}
		found++
		want := b.After
		want.Node[0].Stale = None
		if got := b.After.unmarked(begun); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if found == 0 {
		t.Error("nothing is used by what a mirror has said")
	}
}

// The model allows that a fallback to an image which another request has brought since the check failed leaves no mark; one
// that was done before that does.
func TestFallbackToWhatWasCheckedSince(t *testing.T) {
	fallback := Pull{Caller: Bob, Policy: IfDigestChanged}
	var before World
	before.Node[0] = Image{Content: 2, Proofs: Origin.of(Alice.holder()), By: Origin}
	after := before
	after.Node[0].Stale = Unauthorized
	for _, done := range []bool{true, false} {
		o := orders{pulls: []Pull{fallback, {Caller: Alice}}, answers: []answer{{Saw: Saw{UsedCached, Unauthorized}}, {Saw: Saw{Outcome: Pulled}}}}
		want := after
		if done {
			want = before
		}
		if got := o.unstale(before, after, []bool{false, done}, fallback); got != want {
			t.Errorf("done %v: got %v", done, got)
		}
	}
}

// The model allows that a pull which has asked nobody, by a trouble that it knows and a proof that another's refusal has ended
// meanwhile, fails; where the proof is there it does not.
func TestRefusedWhileAFallbackWouldDo(t *testing.T) {
	reg := Registry{Rule: Rule{ByNamespace: true}}
	reg.Tag[0], reg.Pushed[0][1] = 1, true
	reg.Allowed[0] = Origin.of(Alice.holder())
	alice := Pull{Caller: Alice, Namespace: TeamA, Policy: IfDigestChanged}
	var begun World
	begun.Node[0] = Image{Content: 1, Proofs: Origin.of(TeamA.holder()), By: Origin}
	begun.Has[0][1] = Origin.of(TeamA.holder()) | known | marked
	begun.Blamed.Host.add(RateLimited)
	refused := begun
	refused.refused(Pull{Caller: Nobody, Namespace: TeamA}, Unauthorized)
	for w, want := range map[World]bool{begun: false, refused: true} {
		o := orders{begun: begun, pulls: []Pull{alice}}
		got := slices.ContainsFunc(o.branches(w, alice, reg, reg), func(b Branch) bool { return b.Saw == Saw{Failed, RateLimited} })
		if got != want {
			t.Errorf("fails: %v, want %v", got, want)
		}
	}
}
