// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// maxSpanText bounds what a span tells of an error, in bytes: images say a part of it, such as the
// name of a file in a layer, which can have a megabyte.
const maxSpanText = 1 << 10

// withSpans returns a context whose spans tell no secret by their errors, nor do those that are
// started below. Whoever starts one takes the tracer of the one that is there: so do containerd,
// which unpacks images in them, and net/http's instrumentation. Without one there is nothing to do.
func (r *Redactor) withSpans(ctx context.Context) context.Context {
	around := trace.SpanFromContext(ctx)
	if own, ok := around.(span); ok && own.redactor == r || !around.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span{around, r})
}

// span is a span whose errors are clean, and bounded.
type span struct {
	trace.Span
	redactor *Redactor
}

func (s span) clean(text string) string { return limit(s.redactor.Clean(text), maxSpanText) }

// RecordError implements trace.Span.
func (s span) RecordError(err error, options ...trace.EventOption) {
	if err != nil {
		err = &wrapped{text: s.clean(err.Error()), cause: err}
	}
	s.Span.RecordError(err, options...)
}

// SetStatus implements trace.Span.
func (s span) SetStatus(code codes.Code, description string) {
	s.Span.SetStatus(code, s.clean(description))
}

// TracerProvider implements trace.Span.
func (s span) TracerProvider() trace.TracerProvider {
	return tracerProvider{s.Span.TracerProvider(), s.redactor}
}

type tracerProvider struct {
	trace.TracerProvider
	redactor *Redactor
}

// Tracer implements trace.TracerProvider.
func (p tracerProvider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return tracer{p.TracerProvider.Tracer(name, options...), p.redactor}
}

type tracer struct {
	trace.Tracer
	redactor *Redactor
}

// Start implements trace.Tracer.
func (t tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, started := t.Tracer.Start(ctx, name, options...)
	own := span{started, t.redactor}
	return trace.ContextWithSpan(ctx, own), own
}
