// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package starts tests govern = "Starts": a kubelet that starts a container asks what it
// always asks, and is told what makes the policy hold.
package starts

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
