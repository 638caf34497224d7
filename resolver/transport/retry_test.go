// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"math"
	"net/http"
	"strconv"
	"testing"
	"time"
)

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "7", "-1", "+1", "1.5", "18446744073709551615", "9223372037", "Wed, 21 Oct 2015 07:28:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(seed)
	}
	now := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		got := retryAfter(http.Header{"Retry-After": {value}}, now)
		if got < 0 {
			t.Fatalf("%q: %s", value, got)
		}
		seconds, err := strconv.ParseUint(value, 10, 64)
		if err == nil && seconds < math.MaxInt32 && got != time.Duration(seconds)*time.Second {
			t.Errorf("%q: got %s", value, got)
		}
		if _, dateErr := http.ParseTime(value); err != nil && dateErr != nil && got != 0 {
			t.Errorf("%q: got %s", value, got)
		}
	})
}
