// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire holds what the daemon sends over which connections.
package wire

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
