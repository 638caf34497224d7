// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"sync/atomic"

	"github.com/distribution/reference"

	"github.com/pullwarden/pullwarden/plugin/pin"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// keeper holds the pin.Keeper. That is started last: it needs the records and the rules,
// and the rules tell it of their changes. Until then nothing is pinned.
type keeper struct {
	atomic.Pointer[pin.Keeper]
	reloaded func(ok bool)
}

// Reloaded notes whether the rules were read, which may change what is pinned.
func (k *keeper) Reloaded(ok bool) {
	k.reloaded(ok)
	if started := k.Load(); started != nil && ok {
		started.ReviewAll()
	}
}

// mayPin reports whether a rule pins a tag, for pods of any namespace.
func mayPin(rules *policy.Rules, tag string) bool {
	named, err := reference.ParseDockerRef(tag)
	return err == nil && rules.MayPin(policy.ImageOf(named))
}

// started notes the use of an image by a container, and pins it if the rule for the
// container does.
func (p *imagePolicy) started(ctx context.Context, namespace, tag string, tags []string) {
	for _, t := range tags {
		p.pins.Used(t)
	}
	named, err := reference.ParseDockerRef(tag)
	if tag == "" || err != nil {
		return
	}
	inForce, err := p.rules.Current(ctx)
	if err != nil {
		return
	}
	directives, err := inForce.For(policy.Subject{Image: policy.ImageOf(named), Namespace: namespace})
	if err == nil && directives.Pin && directives.Mode == policy.Enforce {
		p.pins.Keep(ctx, tag)
	}
}
