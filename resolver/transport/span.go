// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// The attributes in which the span of a request has its URL, and the host in that
// (OpenTelemetry's semantic conventions for HTTP spans).
const (
	spanURL  = "url.full"
	spanHost = "server.address"
)

// QuietSpans keeps queries out of the spans of requests, which containerd starts around
// the chain of each of its clients: those of storage services and token servers hold
// credentials. Nor have spans what the redactor knows: a host may redirect to what it was
// sent. Neither may be nil.
type QuietSpans struct {
	Next     http.RoundTripper
	Redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (q QuietSpans) RoundTrip(req *http.Request) (*http.Response, error) {
	if span := trace.SpanFromContext(req.Context()); span.IsRecording() {
		host := redact.Untold
		if q.Redactor.TellsHost(req.URL) {
			host = q.Redactor.Clean(req.URL.Hostname())
		}
		span.SetAttributes(attribute.String(spanURL, q.Redactor.Clean(q.Redactor.URL(req.URL))), attribute.String(spanHost, host))
	}
	return q.Next.RoundTrip(req)
}
