// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain tests on a node that pullwarden explain says what the daemon then
// does, and changes nothing.
package explain

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
