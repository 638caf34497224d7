// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// registryUnavailable begins a message of gRPC code Unknown that the kubelet
// turns into a reason of its own (k8s.io/cri-api/pkg/errors).
const registryUnavailable = "RegistryUnavailable"

// toStatus turns an error of the engine into what the kubelet is told. The
// causes are in the message only: containerd would otherwise pick a gRPC code
// from whatever is wrapped deepest.
func toStatus(err error) error {
	if errors.Is(err, context.Canceled) {
		return status.Error(codes.Canceled, err.Error())
	}
	var failed *engine.Error
	if !errors.As(err, &failed) {
		return err
	}
	if failed.Class.RegistryUnavailable() {
		return status.Error(codes.Unknown, registryUnavailable+": "+err.Error())
	}
	return status.Error(code(failed), err.Error())
}

func code(e *engine.Error) codes.Code {
	switch e.Class {
	case failure.NotFound:
		return codes.NotFound
	case failure.Unauthorized:
		return codes.Unauthenticated
	case failure.Forbidden:
		return codes.PermissionDenied
	}
	switch e.Reason {
	case engine.ReasonHint:
		return codes.InvalidArgument
	case engine.ReasonAbsent, engine.ReasonUnproved:
		return codes.NotFound
	case engine.ReasonHosts, engine.ReasonSource, engine.ReasonVerifier:
		return codes.FailedPrecondition
	}
	return codes.Unknown
}
