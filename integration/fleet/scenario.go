// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"time"
)

// Scenario is a story: a fleet, its registries, and what happens to them. Times count
// from its beginning, which is when nodes have run for as long as Warmup.
type Scenario struct {
	Name, Title string

	Nodes    int
	Pods     int           // of a node
	Images   int           // of the fleet; the pods of a node have that many, or as many as they are
	Lifetime time.Duration // mean time until a pod is replaced; 0 = none ever is
	Together time.Duration // all nodes have checked their images within that time; 0 = within an hour
	Warmup   time.Duration // how long pods come and go before: they know then what they mostly do of tokens
	Length   time.Duration

	Registry     Profile
	Faults       []Fault
	Mirror       *Profile // before the registry; nil = none
	MirrorFaults []Fault
	Addresses    int // that registries see: nodes behind so many NATs; 0 = each its own

	// Events is what happens besides, until ctx ends; nil = nothing.
	Events func(ctx context.Context, f *fleet)

	// Steady and After are compared: the mean of the first with the peak of the second.
	Steady, After Span

	Arms []Arm
}

// Span is from one time to before another.
type Span struct{ From, To time.Duration }

// Arm is one way to run a scenario.
type Arm struct {
	Name    string
	Rules   string // a rule file
	Stock   bool   // nodes run stock containerd, and all pods have imagePullPolicy: Always
	Aligned bool   // max_age has no jitter, which daemons cannot be told
	Starts  bool   // pods have imagePullPolicy: IfNotPresent, and the rules govern their starts
}

// at calls what happens at a time, unless ctx has ended before.
func at(ctx context.Context, f *fleet, when time.Duration, happens func()) {
	if pause(ctx, time.Until(f.origin.start.Add(when))) == nil {
		happens()
	}
}
