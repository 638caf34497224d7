// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/log"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// logOutcome writes the one line of a decision, or of what would have been decided.
func logOutcome(ctx context.Context, o engine.Outcome) {
	parts := make([]string, 0, len(o.Used))
	for _, key := range o.Used {
		parts = append(parts, o.Directives.Describe(key))
	}
	fields := log.Fields{
		"image":      o.Name,
		"policy":     o.Directives.Policy.String(),
		"outcome":    string(o.Kind),
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
	if o.CheckTime > 0 {
		fields["checked"] = o.CheckTime.Round(time.Microsecond).String()
	}
	if o.Grant != "" {
		fields["access"] = string(o.Grant)
	}
	if o.Coalesced {
		fields["coalesced"] = true
	}
	if o.Class != "" {
		fields["class"] = string(o.Class)
	}
	if o.Observed {
		fields["observed"] = o.Directives.Describe(policy.KeyMode)
	}
	if o.StockPull != engine.PullUnknown {
		fields["stock_pull"] = string(o.StockPull)
	}
	if o.Kind == engine.UsedCached {
		fields["last_checked"] = o.Age.String()
	}
	if o.Kind != engine.Failed && len(o.Attempts) > 0 {
		fields["attempts"] = attempts(o)
	}
	l := prefixlog.G(ctx).WithFields(fields)
	switch o.Kind {
	case engine.Failed:
		l.WithError(o.Err).Warn(message(o))
	case engine.UsedCached, engine.NotObserved:
		l.Warn(message(o))
	default:
		l.Info(message(o))
	}
}

// message says in words how a request ended, or would have.
func message(o engine.Outcome) string {
	switch {
	case o.Kind == engine.NotObserved:
		return "not observed: nobody knows what would have been decided"
	case o.Observed && o.Kind == engine.Failed:
		return "would have failed"
	case o.Observed && o.Kind == engine.UsedCached:
		return "the registry failed, would have used the cached image"
	case o.Observed && o.Kind == engine.Pulled:
		return "would have pulled the image"
	case o.Observed:
		return "would have used the cached image"
	case o.Kind == engine.Failed:
		return "no image"
	case o.Kind == engine.UsedCached:
		return "the registry failed, the cached image is used"
	}
	return "image decided"
}

// attempts says of each host why it failed.
func attempts(o engine.Outcome) string {
	parts := make([]string, 0, len(o.Attempts))
	for _, a := range o.Attempts {
		parts = append(parts, fmt.Sprintf("%s: %s: %v", a.Host, a.Class, a.Err))
	}
	return strings.Join(parts, "; ")
}
