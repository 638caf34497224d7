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
