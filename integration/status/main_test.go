// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status tests on a node what pullwarden status shows of it.
package status

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
