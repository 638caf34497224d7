// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// spanURL is the attribute in which the span of a request has its URL (OpenTelemetry's
// semantic conventions for HTTP spans).
const spanURL = "url.full"

// QuietSpans keeps queries out of the spans of requests, which containerd starts around
// the chain of each of its clients: those of storage services and token servers hold
// credentials. Next must not be nil.
type QuietSpans struct{ Next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (q QuietSpans) RoundTrip(req *http.Request) (*http.Response, error) {
	if span := trace.SpanFromContext(req.Context()); span.IsRecording() {
		span.SetAttributes(attribute.String(spanURL, redact.URL(req.URL)))
	}
	return q.Next.RoundTrip(req)
}
