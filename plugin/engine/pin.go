// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/store"
)

// Pins keeps images from the kubelet's garbage collection. Its calls return at once.
type Pins interface {
	// Keep pins the image that a tag has now, which has just been used by the will of a
	// rule that pins it.
	Keep(ctx context.Context, tag string)
	// Used notes that the image of a tag has just been used.
	Used(tag string)
	// Pulled notes that the image of a tag has just come with a pin.
	Pulled(tag string)
	// Review releases the image of a tag, if no rule can pin it any more.
	Review(tag string)
	// MayPin reports whether a rule pins the image of a tag for pods of any namespace.
	MayPin(tag string) bool
}

// pins reports whether the image of the task is to be pinned. An image that is asked for
// by its digest is current for no tag: nothing would ever supersede it.
func (t *task) pins() bool { return t.directives.Pin && !t.byDigest() }

// pin pins the image that ended a request, or has it released. What a pull has stored with
// a pin is reviewed already, see fetch. A request to which another
// rule applies, or none, takes no pin away that a rule has for pods of other namespaces.
func (e *Engine) pin(ctx context.Context, t task, c course) {
	switch {
	case e.Pins == nil || t.byDigest():
	case t.directives.Pin && c.end.kind != Failed:
		e.Pins.Keep(ctx, t.Name)
	case !c.local.Record.Pin.Own:
	case !t.directives.Pin && !e.Pins.MayPin(t.Name):
		e.Pins.Review(t.Name)
	case c.end.kind != Failed:
		e.Pins.Used(t.Name)
	}
}

// pinsForOthers reports whether a rule pins the image of a task for pods of other
// namespaces alone.
func (e *Engine) pinsForOthers(t task) bool {
	return e.Pins != nil && !t.byDigest() && !t.directives.Pin && e.Pins.MayPin(t.Name)
}

// pinOf is the pin that the tag gets in the same step as the digest that is pulled, so
// that the kubelet finds no moment to remove it. The pin of a tag stays while any rule
// pins it, whoever pulls, also one that it got during the pull. The error is one of
// reading it.
func (e *Engine) pinOf(ctx context.Context, t task) (store.Pin, error) {
	pins := e.Pins != nil && t.pins()
	if e.pinsForOthers(t) {
		record, err := e.Records.Get(ctx, t.Name)
		if err != nil && !errdefs.IsNotFound(err) {
			return store.Pin{}, fmt.Errorf("read the pin of the tag: %w", err)
		}
		pins = record.Pin.Own
	}
	if !pins {
		return store.Pin{}, nil
	}
	return store.Pin{Own: true, Used: e.Now()}, nil
}
