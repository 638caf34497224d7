// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
