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
