// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespace knows where in containerd CRI keeps what it has.
package namespace

import (
	"context"

	"github.com/containerd/containerd/v2/pkg/namespaces"
)

// cri is containerd's own constant (internal/cri/constants).
const cri = "k8s.io"

// CRI returns a context for CRI's records, content and snapshots.
func CRI(ctx context.Context) context.Context { return namespaces.WithNamespace(ctx, cri) }
