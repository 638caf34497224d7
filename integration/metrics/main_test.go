// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics scrapes the built daemon, and collects its traces.
package metrics

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
