// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reality compares the model of integration/fleet with real daemons and a real
// registry.
package reality

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
