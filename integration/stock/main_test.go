// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stock tests on a node that what containerd does without pullwarden
// stays as it is: switched off, for other clients, for verifiers and runtimes.
package stock

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
