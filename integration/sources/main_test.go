// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sources tests on a node which hosts serve an image: hosts.toml, mirrors
// and allowed sources, and what the node records and shows of them.
package sources

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
