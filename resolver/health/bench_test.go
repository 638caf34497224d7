// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "testing"

// BenchmarkBreaker measures the price of the breakers for each request.
func BenchmarkBreaker(b *testing.B) {
	breakers := New()
	defer breakers.Close()
	v := breakers.View(nil)
	b.ReportAllocs()
	for b.Loop() {
		if v.Trouble(host, 0) == nil {
			v.Answered(host, false)
		}
	}
}
