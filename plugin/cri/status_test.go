// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// The kubelet sees what containerd's instrumentation makes of the error.
func TestToStatus(t *testing.T) {
	cause := fmt.Errorf("dial: %w", errors.Join(context.DeadlineExceeded, errdefs.ErrUnavailable))
	for _, tc := range []struct {
		class       failure.Class
		reason      engine.Reason
		code        codes.Code
		unavailable bool
	}{
		{failure.Unreachable, "unreachable", codes.Unknown, true},
		{failure.Unavailable, "unavailable", codes.Unknown, true},
		{failure.RateLimited, engine.ReasonMaxStale, codes.Unknown, true},
		{failure.NotFound, "not_found", codes.NotFound, false},
		{failure.Unauthorized, "unauthorized", codes.Unauthenticated, false},
		{failure.Forbidden, "forbidden", codes.PermissionDenied, false},
		{failure.Invalid, "invalid", codes.Unknown, false},
		{failure.None, engine.ReasonHint, codes.InvalidArgument, false},
		{failure.None, engine.ReasonAbsent, codes.NotFound, false},
		{failure.None, engine.ReasonVerifier, codes.FailedPrecondition, false},
		{failure.None, engine.ReasonPull, codes.Unknown, false},
	} {
		err := toStatus(&engine.Error{Name: "registry.test/app:1", Under: "policy=Always(default)", Reason: tc.reason, Class: tc.class, Err: cause})
		got := status.Convert(errgrpc.ToGRPC(err))
		if got.Code() != tc.code {
			t.Errorf("%s/%s: code %s, want %s", tc.class, tc.reason, got.Code(), tc.code)
		}
		if strings.HasPrefix(got.Message(), "RegistryUnavailable") != tc.unavailable {
			t.Errorf("%s/%s: message %q", tc.class, tc.reason, got.Message())
		}
		if !strings.Contains(got.Message(), "registry.test/app:1") || !strings.Contains(got.Message(), "dial") {
			t.Errorf("%s/%s: message %q", tc.class, tc.reason, got.Message())
		}
	}
	if got := status.Code(errgrpc.ToGRPC(toStatus(&engine.Error{Err: context.Canceled}))); got != codes.Canceled {
		t.Errorf("canceled: %s", got)
	}
}
