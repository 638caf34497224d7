// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package troubleshooting makes pulls fail for every reason, and holds the messages that
// docs/troubleshooting.md shows against those of the daemon.
package troubleshooting

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
