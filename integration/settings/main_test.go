// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings tests nodes whose CRI is configured in a way with which stock
// CRI pulls without the transfer service: the promises are the same under each of
// these settings, and what CRI shows of an image is what stock CRI shows.
package settings

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
