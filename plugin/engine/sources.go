// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// Where content may come from. Under a rule with allowed_sources no other host
// is contacted, and an image that came from elsewhere, or from nobody knows
// where, is not reused: its bytes are taken once more from an allowed host.

// allow returns which hosts may be asked, nil for all.
func (d *decision) allow() func(host string) bool {
	if d.o.Decision.AllowedSources.All() {
		return nil
	}
	d.o.use(policy.KeyAllowedSources)
	return d.o.Decision.AllowedSources.Allow
}

// fromElsewhere reports whether an image is not known to have come from
// allowed hosts alone.
func (d *decision) fromElsewhere(s store.State) bool {
	sources := d.o.Decision.AllowedSources
	if sources.All() {
		return false
	}
	host, _, _ := strings.Cut(s.PullSource, "/")
	return !sources.Allow(host) || slices.ContainsFunc(s.ContentSources, func(h string) bool { return !sources.Allow(h) })
}

// notOpened ends the request when the hosts cannot be asked.
func (d *decision) notOpened(err error) error {
	var sources *resolver.SourcesError
	if errors.As(err, &sources) {
		return d.fail(ReasonSource, fmt.Errorf("%s: %w", d.o.Decision.Describe(policy.KeyAllowedSources), err))
	}
	return d.fail(ReasonHosts, err)
}

// takeAgain takes the bytes of an image that is there from the source, which
// has allowed hosts only, and compares them.
func (d *decision) takeAgain(ctx context.Context, source Source, a answer, c *cached) error {
	if err := d.compare(ctx, source, a); err != nil {
		return err
	}
	c.proof = open // the caller has just proved it
	d.cached, d.elsewhere = c, nil
	if err := d.reuse(ctx, Pulled, ReasonSource); err != nil {
		return err
	}
	d.engine.Images.MarkPulled(ctx, a.Digest, d.state(source.Served(), a, a.Digest, store.State{}), d.names(a.Digest)...)
	return nil
}

// compare takes every byte of an image that is there from the source.
func (d *decision) compare(ctx context.Context, source Source, a answer) error {
	fetcher, err := source.Fetcher(ctx, d.req.Name)
	if err == nil {
		err = d.engine.Images.Compare(ctx, a.descriptor, fetcher)
	}
	if err != nil {
		return d.notPulled(ctx, source, err)
	}
	return nil
}
