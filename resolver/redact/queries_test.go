// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Neither the memory nor the time that queries take is the registry's.
func TestQueriesAreBounded(t *testing.T) {
	var r Redactor
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 100 {
		r.AddQuery(&url.URL{RawQuery: strings.Repeat("k", 1<<20) + fmt.Sprintf("=value-of-more-than-16-bytes-%d", i)})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 10<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	var b strings.Builder
	for i := range 9_000 {
		fmt.Fprintf(&b, "&k=%%20%016d", i)
	}
	start := time.Now()
	for range 3 {
		r.AddQuery(&url.URL{RawQuery: b.String()[1:]})
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	runtime.KeepAlive(&r)
}
