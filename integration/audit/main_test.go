// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit tests the audit log that a node keeps.
package audit

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
