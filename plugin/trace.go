// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"

	"github.com/containerd/containerd/v2/pkg/tracing"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// traceOutcome puts an outcome into the decision's span, that of the context. Failed is
// an error there; UsedCached is none, since the caller got its image.
func traceOutcome(ctx context.Context, o engine.Outcome) {
	if o.Background || !trace.SpanFromContext(ctx).IsRecording() {
		return // the span is that of a request that has ended
	}
	attributes := []attribute.KeyValue{
		attribute.String("pullwarden.image", o.Name),
		attribute.String("pullwarden.policy", o.Directives.Policy.String()),
		attribute.String("pullwarden.policy_set_by", o.Directives.SetBy(policy.KeyPolicy)),
		attribute.String("pullwarden.outcome", string(o.Kind)),
		attribute.String("pullwarden.reason", string(o.Reason)),
		attribute.Bool("pullwarden.coalesced", o.Coalesced),
		attribute.Float64("pullwarden.check_seconds", o.CheckTime.Seconds()),
		attribute.Int("pullwarden.failed_hosts", len(o.Attempts)),
	}
	for _, known := range []struct{ key, value string }{
		{"pullwarden.pod_namespace", o.Namespace},
		{"pullwarden.digest", o.Digest.String()},
		{"pullwarden.digest_before", o.Before.String()},
		{"pullwarden.class", string(o.Class)},
		{"pullwarden.verified_by", o.Host},
		{"pullwarden.access", string(o.Grant)},
	} {
		if known.value != "" {
			attributes = append(attributes, attribute.String(known.key, known.value))
		}
	}
	span := tracing.SpanFromContext(ctx)
	span.SetAttributes(attributes...)
	span.SetStatus(o.Err)
}
