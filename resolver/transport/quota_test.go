// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

var quotaTests = map[string]struct {
	header []string // name, value, …
	want   *Quota
}{
	"nothing":                      {nil, nil},
	"Docker Hub":                   {[]string{"ratelimit-limit", "100;w=21600", "ratelimit-remaining", "76;w=21600"}, &Quota{100, 76, 6 * time.Hour}},
	"none left":                    {[]string{"RateLimit-Limit", "100;w=21600", "RateLimit-Remaining", "0;w=21600"}, &Quota{100, 0, 6 * time.Hour}},
	"draft 06":                     {[]string{"RateLimit-Limit", "100, 100;w=60, 1000;w=3600", "RateLimit-Remaining", "50", "RateLimit-Reset", "30"}, &Quota{100, 50, 30 * time.Second}},
	"draft 06 without a time":      {[]string{"RateLimit-Limit", "100", "RateLimit-Remaining", "50"}, &Quota{100, 50, 0}},
	"draft 07":                     {[]string{"RateLimit", "limit=100, remaining=50, reset=5", "RateLimit-Policy", "100;w=60"}, &Quota{100, 50, 5 * time.Second}},
	"draft 10":                     {[]string{"RateLimit", `"hour";r=50;t=30`, "RateLimit-Policy", `"hour";q=100;w=3600`}, &Quota{100, 50, 30 * time.Second}},
	"draft 10 without a time":      {[]string{"RateLimit", `"hour";r=50`, "RateLimit-Policy", `"hour";q=100;w=3600`}, &Quota{100, 50, time.Hour}},
	"draft 10, two policies":       {[]string{"RateLimit", `"minute";r=9;t=30, "day";r=50;t=3000`, "RateLimit-Policy", `"minute";q=10;w=60, "day";q=1000;w=86400`}, &Quota{1000, 50, 3000 * time.Second}},
	"a policy without a name":      {[]string{"RateLimit", `"hour";r=50;t=30`, "RateLimit-Policy", `"day";q=100`}, nil},
	"only the limit":               {[]string{"RateLimit-Limit", "100;w=21600"}, nil},
	"only what is left":            {[]string{"RateLimit-Remaining", "100;w=21600"}, nil},
	"more left than there is":      {[]string{"RateLimit-Limit", "100", "RateLimit-Remaining", "101"}, nil},
	"negative":                     {[]string{"RateLimit-Limit", "100", "RateLimit-Remaining", "-1"}, nil},
	"no limit at all":              {[]string{"RateLimit-Limit", "0", "RateLimit-Remaining", "0"}, nil},
	"fractions":                    {[]string{"RateLimit-Limit", "100.5", "RateLimit-Remaining", "1.5"}, nil},
	"too large":                    {[]string{"RateLimit-Limit", "1000000000000000", "RateLimit-Remaining", "1"}, nil},
	"words":                        {[]string{"RateLimit-Limit", "many", "RateLimit-Remaining", "some"}, nil},
	"too long":                     {[]string{"RateLimit-Limit", "100;w=" + strings.Repeat("0", maxQuotaField), "RateLimit-Remaining", "1"}, nil},
	"a window of years":            {[]string{"RateLimit-Limit", "100;w=999999999999999", "RateLimit-Remaining", "1"}, &Quota{100, 1, 0}},
	"a negative window":            {[]string{"RateLimit-Limit", "100;w=-1", "RateLimit-Remaining", "1"}, &Quota{100, 1, 0}},
	"lists in lists":               {[]string{"RateLimit-Limit", "(1 2)", "RateLimit-Remaining", "1"}, nil},
	"fields before the dictionary": {[]string{"RateLimit-Limit", "10", "RateLimit-Remaining", "1", "RateLimit", "limit=100, remaining=50"}, &Quota{10, 1, 0}},
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	for name, test := range quotaTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for i := 0; i < len(test.header); i += 2 {
				h.Add(test.header[i], test.header[i+1])
			}
			got := readQuota(h)
			if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// A quota makes sense, whatever a registry sends.
func FuzzQuota(f *testing.F) {
	for _, test := range quotaTests {
		h := http.Header{}
		for i := 0; i < len(test.header); i += 2 {
			h.Add(test.header[i], test.header[i+1])
		}
		f.Add(h.Get("RateLimit-Limit"), h.Get("RateLimit-Remaining"), h.Get("RateLimit"), h.Get("RateLimit-Policy"))
	}
	f.Fuzz(func(t *testing.T, limit, remaining, combined, policy string) {
		h := http.Header{}
		h.Set("RateLimit-Limit", limit)
		h.Set("RateLimit-Remaining", remaining)
		h.Set("RateLimit", combined)
		h.Set("RateLimit-Policy", policy)
		q := readQuota(h)
		if q != nil && (q.Limit < 1 || q.Remaining < 0 || q.Remaining > q.Limit || q.Window < 0 || q.Window > maxWindow) {
			t.Errorf("%+v", *q)
		}
	})
}
