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
)

// logOutcome writes the one line of a decision.
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
	if len(o.NearHints) > 0 {
		fields["not_hints"] = strings.Join(o.NearHints, ", ")
	}
	l := prefixlog.G(ctx).WithFields(fields)
	switch o.Kind {
	case engine.Failed:
		l.WithError(o.Err).Warn("no image")
	case engine.UsedCached:
		l.WithField("last_checked", o.Age.String()).WithField("attempts", attempts(o)).Warn("the registry failed, the cached image is used")
	default:
		if len(o.Attempts) > 0 {
			l = l.WithField("attempts", attempts(o))
		}
		if len(o.NearHints) > 0 {
			l.Warn("image decided, without annotations that are nearly hints")
			return
		}
		l.Info("image decided")
	}
}

// attempts says of each host why it failed.
func attempts(o engine.Outcome) string {
	parts := make([]string, 0, len(o.Attempts))
	for _, a := range o.Attempts {
		parts = append(parts, fmt.Sprintf("%s: %s: %v", a.Host, a.Class, a.Err))
	}
	return strings.Join(parts, "; ")
}
