// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A registry redirects to a password by a URL without a host. Neither errors nor spans tell what
// stands before the query or the fragment.
func TestRedirectsWithoutAHost(t *testing.T) {
	for _, secret := range []string{"summer2024xyz?more", "summer2024xyz#more"} {
		for _, before := range []string{"http:/", "https:/"} {
			t.Run(before+secret, func(t *testing.T) {
				wantNothingOf(t, "summer2024", repeating(t, secret, Query{}, redirecting(before)))

				server, _ := serve(t, toldByBasic(redirecting(before)))
				recorder := tracetest.NewSpanRecorder()
				ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(), "check")
				s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as("alice", secret)})
				_, _ = s.Resolve(ctx, plenty)
				span.End()
				for _, s := range recorder.Ended() {
					wantNothingOf(t, "summer2024", fmt.Sprintf("%s %+v %+v %+v", s.Name(), s.Status(), s.Attributes(), s.Events()))
				}
			})
		}
	}
}
