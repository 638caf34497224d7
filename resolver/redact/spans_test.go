// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/pkg/tracing"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// The errors of spans have no secret and an end, also of those that containerd starts below others;
// they stand in one trace.
func TestErrorsOfSpansAreClean(t *testing.T) {
	const secret = "Summer2024xyz"
	var r, other Redactor
	r.Add(secret)
	other.Add("another-secret")
	recorder := tracetest.NewSpanRecorder()
	ctx, root := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(), "root")
	err := errors.New(secret + strings.Repeat("x", 4<<10))
	ctx = other.WithQuietLogger(r.WithRedactedLogger(ctx))
	if again := other.WithQuietLogger(ctx); trace.SpanFromContext(again) != trace.SpanFromContext(ctx) {
		t.Error("a span is made clean twice")
	}
	tracing.SpanFromContext(ctx).SetStatus(err)
	below, child := tracing.StartSpan(ctx, "child")
	child.SetStatus(fmt.Errorf("another-secret: %w", err))
	_, grandchild := tracing.StartSpan(below, "grandchild")
	grandchild.RecordError(err)
	grandchild.SetStatus(nil)
	grandchild.End()
	child.End()
	root.End()
	spans := recorder.Ended()
	for i, parent := range []int{1, 2} {
		if spans[i].Parent().SpanID() != spans[parent].SpanContext().SpanID() {
			t.Errorf("%s stands below %s", spans[i].Name(), spans[i].Parent().SpanID())
		}
	}
	for _, s := range spans {
		if len(s.Status().Description) > maxSpanText+len("…") {
			t.Errorf("%s: a status of %d bytes", s.Name(), len(s.Status().Description))
		}
		if len(s.Events()) != 1 {
			t.Errorf("%s: %d events", s.Name(), len(s.Events()))
		}
		if text := fmt.Sprint(s.Status(), s.Events()); strings.Contains(text, secret) || strings.Contains(text, "another-secret") || len(text) > 4<<10 {
			t.Errorf("%s: %s", s.Name(), text)
		}
	}
}

// Where nothing is traced, nothing is begun.
func TestNoSpans(t *testing.T) {
	ctx := new(Redactor).WithRedactedLogger(t.Context())
	if trace.SpanFromContext(ctx).SpanContext().IsValid() {
		t.Error("there is a span")
	}
}
