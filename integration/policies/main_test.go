// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies tests on a node what is decided and why: policies, rules,
// hints, the checks that they cost, and the labels that checks leave.
package policies

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }
