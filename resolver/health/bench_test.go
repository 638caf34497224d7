// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "testing"

// BenchmarkBreaker measures the price of the breakers for each request.
func BenchmarkBreaker(b *testing.B) {
	var br Breakers
	b.ReportAllocs()
	for b.Loop() {
		p, _ := br.Admit("https://registry.test")
		p.Begin()
		p.Answered()
		p.Release()
	}
}
