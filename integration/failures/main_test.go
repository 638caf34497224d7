// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package failures tests on a node what happens when registries or the daemon
// fail: failure classes, cached fallbacks, retries, kills.
package failures

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
