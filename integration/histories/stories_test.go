// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// stories are histories that a daemon did not keep to once, or that are seldom drawn.
var stories = map[string][]Op{
	// A proof that was not yet written outlived the image it was for.
	"a proof goes with the image": {
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice, Policy: Always}}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Bob, Policy: Always}}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Bob, Policy: Always}}},
		{Kind: DoRemove},
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice, Policy: Always}}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Bob, Policy: Never}}},
	},
	"a mirror in the place of the origin": inNeed,
	// It counts as none to a check, which reads the manifest, and to a pull, which reads the config.
	"a mirror's proof alone": {
		{Kind: DoRule, Rule: Rule{Policy: Always, Access: AnyCaller, From: FromOriginThenMirrors}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice}}},
		{Kind: DoMirror, Mirror: true},
		{Kind: DoTrouble, Trouble: Refuses},
		{Kind: DoPull, Pulls: []Pull{{Caller: Bob}}},
		{Kind: DoRule, Rule: Rule{Policy: Always, From: FromOriginThenMirrors}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Bob}}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Nobody, Policy: Never}}},
		{Kind: DoMirror, Mirror: false},
		{Kind: DoTrouble, Trouble: NoBlobs},
		{Kind: DoPush, Name: 1, Content: 1},
		{Kind: DoPull, Pulls: []Pull{{Caller: Bob, Name: 1}}},
	},
	// On the record of its name it says nothing until that of repository@digest has another.
	"a mirror's proof beside the registry's": {
		{Kind: DoPush, Name: 1, Content: 1},
		{Kind: DoPull, Pulls: []Pull{{Caller: Bob}}},
		{Kind: DoRule, Rule: Rule{Policy: Always, From: FromMirrors}},
		{Kind: DoMirror, Mirror: true},
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice, Name: 1}}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice}}},
		{Kind: DoRule, Rule: Rule{Policy: Always, From: FromOrigin}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice, Name: 1}}},
	},
	"a local tag under a deadline": {
		{Kind: DoPush, Name: 1, Content: 3},
		{Kind: DoRule, Rule: Rule{Policy: Never, Access: AnyCaller, From: FromOriginThenMirrors, Authority: true, Fresh: Freshness{Starts: true, Deadline: true, Pin: true, Manifest: true}}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice, Name: 1, Policy: IfNotPresent}}},
		{Kind: DoTag, Name: 2, From: 1},
		{Kind: DoPull, Pulls: []Pull{{Caller: Bob, Name: 2, Policy: IfDigestChanged}}},
	},
	"a rule that wants manifests read": {
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice}}},
		{Kind: DoRule, Rule: Rule{Policy: IfDigestChanged, Fresh: Freshness{Starts: true, Deadline: true, Pin: true, Manifest: true}}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice, MaxAge: true}}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice, MaxAge: true}}},
		{Kind: DoTrouble, Trouble: Lies},
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice}}},
		{Kind: DoTrouble},
		{Kind: DoPush, Content: 3},
		{Kind: DoTogether, Pulls: []Pull{{Caller: Alice}, {Caller: Bob}, {Caller: Alice}}},
		{Kind: DoRule, Rule: Rule{Policy: Always}},
		{Kind: DoPull, Pulls: []Pull{{Caller: Alice}}},
		{Kind: DoRule, Rule: Rule{Policy: Always, Fresh: Freshness{Manifest: true}}},
		{Kind: DoRestart, Pulls: []Pull{{Caller: Alice, MaxAge: true}}},
	},
}

// inNeed are the steps of a history in which a mirror answers in the place of the origin.
var inNeed = []Op{
	{Kind: DoRule, Rule: Rule{Policy: IfDigestChanged, From: FromOriginThenMirrors, Authority: true}},
	{Kind: DoMirror, Mirror: true},
	{Kind: DoTrouble, Trouble: Status503},
	{Kind: DoPull, Pulls: []Pull{{Caller: Alice}}},
	{Kind: DoKill, Pulls: []Pull{{Caller: Bob}}},
	{Kind: DoPull, Pulls: []Pull{{Caller: Bob, Policy: IfNotPresent}}},
	{Kind: DoPush, Content: 3},
	{Kind: DoPull, Pulls: []Pull{{Caller: Alice, MaxAge: true}}},
	{Kind: DoTogether, Pulls: []Pull{{Caller: Alice, Policy: Always}, {Caller: Bob}, {Caller: Wrong}}},
	{Kind: DoTrouble, Trouble: Up},
	{Kind: DoPull, Pulls: []Pull{{Caller: Alice}}},
	{Kind: DoImport, Name: 0, From: 1},
	{Kind: DoTrouble, Trouble: Refuses},
	{Kind: DoPull, Pulls: []Pull{{Caller: Bob, Policy: IfNotPresent}}},
	{Kind: DoDelete, Name: 0},
	{Kind: DoPull, Pulls: []Pull{{Caller: Alice}}}, // an authority's 404
	{Kind: DoMirror, Mirror: false},
	{Kind: DoPull, Pulls: []Pull{{Caller: Alice}}},
	{Kind: DoTrouble, Trouble: Up},
	{Kind: DoDeny, Caller: Alice},
	{Kind: DoPull, Pulls: []Pull{{Caller: Alice}}},
	{Kind: DoPull, Pulls: []Pull{{Caller: Alice, Policy: Never}}},
}

// TestStories holds the stories against the model.
func TestStories(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	n := startNode(ctx, t)
	done := newTally()
	for name, ops := range stories {
		t.Run(name, func(t *testing.T) {
			h, err := begin(ctx, n, done, false, Rule{Policy: Always})
			if err != nil {
				t.Fatal(err)
			}
			defer h.reg.Close()
			h.patience = 15 * time.Second
			for _, o := range ops {
				if err == nil {
					err = h.step(ctx, o)
				}
			}
			if err == nil {
				err = h.end(ctx)
			}
			var v *violation
			if errors.As(err, &v) {
				t.Errorf("%v\n%s\n%s", err, v.details, strings.Join(h.steps, "\n"))
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
