// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import "testing"

// The model allows that the mirror gives an image to all, in the place of a registry that has gone,
// by the manifest that it was asked for by a pull which began without a proof, whatever another has
// proved to its caller since. A pull that began with one reads none.
func TestProofsMeanwhile(t *testing.T) {
	reg, err := newRegistry(1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	up := Registry{Mirror: true, Rule: Rule{Policy: Always, From: FromOriginThenMirrors}}
	up.Tag[0], up.Pushed[0][1] = 1, true
	up.Allowed[0] = Origin.of(Alice.holder()) | Origin.of(Bob.holder())
	gone := up
	gone.Trouble = Refuses
	both := []Pull{{Caller: Bob, Policy: Always}, {Caller: Bob, Policy: IfNotPresent}}
	for _, tc := range []struct {
		name    string
		began   Set
		second  Saw
		allowed bool
	}{
		{"another's proof comes meanwhile", Origin.of(Alice.holder()), Saw{Outcome: Unchanged}, true},
		{"a proof is there", Origin.of(Alice.holder()) | Origin.of(Bob.holder()), Saw{Outcome: Present}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var begun World
			begun.Node[0] = Image{Content: 1, Proofs: tc.began}
			begun.Has[0][1] = tc.began | known | marked
			answers := []answer{{Saw: Saw{UsedCached, MirrorFallback}, decided: true}, {Saw: tc.second, decided: true}}
			o := orders{
				h: &history{reg: reg}, states: []Registry{up, gone}, pulls: both, answers: answers,
				begun: begun, found: map[World]bool{},
			}
			o.from(begun, make([]bool, len(both)), 0)
			want := tc.began | Origin.of(Bob.holder()) | Mirror.of(Bob.holder()) | Mirror.of(Nobody.holder())
			allowed := false
			for w := range o.found {
				allowed = allowed || w.Node[0].Proofs == want
			}
			if len(o.found) == 0 || allowed != tc.allowed {
				t.Errorf("that it is everybody's by the mirror is allowed: %v; the states are %v", allowed, o.found)
			}
		})
	}
}

// The model allows that a pull which was about to use an image that somebody has imported, and begins anew since another
// pull has given its name to another image, leaves a record of it by its digest, of which nothing is known, as it would have
// been by the tag.
func TestOpenImageThatIsOvertaken(t *testing.T) {
	reg, err := newRegistry(1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	now := Registry{}
	now.Tag[0], now.Pushed[0][2] = 2, true
	now.Allowed[0] = Origin.of(Alice.holder()) | Origin.of(Bob.holder())
	pulls := []Pull{{Caller: Alice, Policy: Always}, {Caller: Bob, Policy: IfNotPresent}}
	for _, tc := range []struct {
		name    string
		image   Image
		allowed bool
	}{
		{"imported", Image{Content: 1, Open: true, By: Unchecked, Read: Unread}, true},
		{"pulled by another, to whom it is left", Image{Content: 1, Proofs: Origin.of(TeamB.holder())}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var begun World
			begun.Node[0] = tc.image
			o := orders{
				h: &history{reg: reg}, states: []Registry{now}, pulls: pulls,
				answers: []answer{{Saw: Saw{Outcome: Pulled}, decided: true}, {Saw: Saw{Outcome: Unchanged}, decided: true}},
				begun:   begun, found: map[World]bool{},
			}
			o.from(begun, make([]bool, len(pulls)), 0)
			allowed := false
			for w := range o.found {
				allowed = allowed || w.Has[0][1] == known
			}
			if len(o.found) == 0 || allowed != tc.allowed {
				t.Errorf("a record by digest of which nothing is known is allowed: %v; the states are %v", allowed, o.found)
			}
		})
	}
}
