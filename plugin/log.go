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
	fields := log.Fields{
		"image":      o.Name,
		"policy":     o.Directives.Policy.String(),
		"outcome":    string(o.Kind),
		"reason":     string(o.Reason),
		"decided_by": o.DecidedBy(),
		"elapsed":    o.Elapsed.Round(time.Microsecond).String(),
	}
	if o.Namespace != "" {
		fields["pod_namespace"] = o.Namespace
	}
	if o.Pod != "" {
		fields["pod"] = o.Pod
	}
	if o.Digest != "" {
		fields["digest"] = o.Digest.String()
	}
	if o.Host != "" {
		fields["verified_by"] = o.Host
	}
	if o.CheckTime > 0 {
		fields["check_time"] = o.CheckTime.Round(time.Microsecond).String()
	}
	if o.Grant != "" {
		fields["access"] = string(o.Grant)
	}
	if o.Coalesced {
		fields["coalesced"] = true
	}
	if o.Class != "" && string(o.Class) != string(o.Reason) {
		fields["class"] = string(o.Class)
	}
	if o.Observed {
		fields["observed"] = o.Directives.Describe(policy.KeyMode)
	}
	if o.StockPull != engine.PullUnknown {
		fields["stock_pull"] = string(o.StockPull)
	}
	if o.Awaited != "" {
		fields["awaited"] = o.Awaited.String()
	}
	if o.Background {
		fields["background"] = true
	}
	if o.Kind == engine.UsedCached {
		fields["last_checked"] = o.Age.String()
	}
	if len(o.NearHints) > 0 {
		fields["not_hints"] = strings.Join(o.NearHints, ", ")
	}
	writeOutcome(prefixlog.G(ctx).WithFields(fields), o)
}

// writeOutcome writes a line with these fields.
func writeOutcome(l prefixlog.Entry, o engine.Outcome) {
	if len(o.Attempts) > 0 && o.Err == nil { // the error has them
		l = l.WithField("tried", tried(o))
	}
	switch {
	case o.Kind == engine.Failed:
		l.WithError(o.Err).Warn(message(o))
	case o.Kind == engine.UsedCached, o.Kind == engine.NotObserved, o.Reason == engine.ReasonMirrorFallback, len(o.NearHints) > 0:
		l.Warn(message(o))
	default:
		l.Info(message(o))
	}
}

// message says how a request ended, or would have, and under which directive.
func message(o engine.Outcome) string {
	text := fmt.Sprintf("%s (%s) under %s", o.Kind, o.Reason, o.Under())
	switch {
	case o.Kind == engine.NotObserved:
		return text + ": nobody knows what would have been decided"
	case o.Observed:
		return "would have been " + text
	case o.Background:
		return text + ", in the background"
	}
	return text
}

// tried says of each host why it failed.
func tried(o engine.Outcome) string {
	parts := make([]string, 0, len(o.Attempts))
	for _, a := range o.Attempts {
		parts = append(parts, fmt.Sprintf("%s: %s: %v", a.Host, a.Class, a.Err))
	}
	return strings.Join(parts, "; ")
}
