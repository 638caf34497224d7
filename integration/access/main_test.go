// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access tests on a node who may have an image that is there: proofs of
// access, how they are gained, kept and lost, and that nothing tells a secret.
package access

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
