// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/log"

	"github.com/pullwarden/pullwarden/plugin/engine"
)

// logOutcome writes the one line of a decision.
func logOutcome(ctx context.Context, o engine.Outcome) {
	parts := make([]string, 0, len(o.Parts))
	for _, p := range o.Parts {
		parts = append(parts, o.Decision.Describe(p))
	}
	fields := log.Fields{
		"image":      o.Name,
		"policy":     o.Decision.Policy.String(),
		"outcome":    string(o.Result),
		"reason":     string(o.Reason),
		"decided_by": strings.Join(parts, ", "),
		"elapsed":    o.Elapsed.Round(time.Microsecond).String(),
	}
	if o.Namespace != "" {
		fields["pod_namespace"] = o.Namespace
	}
	if o.Digest != "" {
		fields["digest"] = o.Digest.String()
	}
	if o.Host != "" {
		fields["verified_by"] = o.Host
	}
	if o.Checked > 0 {
		fields["checked"] = o.Checked.Round(time.Microsecond).String()
	}
	if o.Access != "" {
		fields["access"] = string(o.Access)
	}
	if o.Coalesced {
		fields["coalesced"] = true
	}
	if o.Class != "" {
		fields["class"] = string(o.Class)
	}
	l := log.G(ctx).WithFields(fields)
	switch o.Result {
	case engine.Failed:
		l.WithError(o.Err).Warn("pullwarden: no image")
	case engine.UsedCached:
		age := "never"
		if o.Age >= 0 {
			age = o.Age.Round(time.Second).String() + " ago"
		}
		l.WithField("last_checked", age).WithField("attempts", attempts(o)).Warn("pullwarden: the registry failed, the cached image is used")
	default:
		if len(o.Attempts) > 0 {
			l = l.WithField("attempts", attempts(o))
		}
		l.Info("pullwarden: image decided")
	}
}

// attempts tells host by host why it failed.
func attempts(o engine.Outcome) string {
	parts := make([]string, 0, len(o.Attempts))
	for _, a := range o.Attempts {
		parts = append(parts, fmt.Sprintf("%s: %s: %v", a.Host, a.Class, a.Err))
	}
	return strings.Join(parts, "; ")
}
