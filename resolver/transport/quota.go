// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// Quota is how many requests a registry says that it lets the caller make.
type Quota struct {
	Limit     int64         // of the window, positive
	Remaining int64         // from 0 to Limit
	Window    time.Duration // until the count begins anew, at most; 0 = the registry does not say
}

const (
	maxQuotaField = 512                 // bytes of a header that are read
	maxWindow     = 31 * 24 * time.Hour // longer ones are as if the registry did not say
)

// readQuota reads the quota of an answer, nil for none that makes sense. The fields are
// those of draft-ietf-httpapi-ratelimit-headers, which has changed them: "RateLimit-Limit"
// with "RateLimit-Remaining", as Docker Hub has them ("100;w=21600"), up to version 06,
// one dictionary in version 07, and from 08 on a list of policies with their names.
func readQuota(h http.Header) *Quota {
	for _, read := range []func(http.Header) (Quota, bool){quotaOfFields, quotaOfDictionary, quotaOfPolicies} {
		if q, ok := read(h); ok && q.Limit > 0 && q.Remaining >= 0 && q.Remaining <= q.Limit {
			if q.Window < 0 || q.Window > maxWindow {
				q.Window = 0
			}
			return &q
		}
	}
	return nil
}

// quotaFields are what readQuota reads.
var quotaFields = []string{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "Ratelimit", "Ratelimit-Policy"}

// repeatsIn reports whether one of the fields of a quota that are read has a secret.
func repeatsIn(h http.Header, secrets *redact.Texts) bool {
	return slices.ContainsFunc(quotaFields, func(name string) bool {
		values, read := field(h, name)
		return read && slices.ContainsFunc(values, secrets.Knows)
	})
}

// quotaOfFields reads RateLimit-Limit: 100;w=21600 and RateLimit-Remaining: 76;w=21600.
func quotaOfFields(h http.Header) (Quota, bool) {
	limit, hasLimit := firstItem(h, "Ratelimit-Limit")
	remaining, hasRemaining := firstItem(h, "Ratelimit-Remaining")
	if !hasLimit || !hasRemaining {
		return Quota{}, false
	}
	reset, _ := firstItem(h, "Ratelimit-Reset")
	return quotaOf(limit.Value, remaining.Value, cmp.Or(integer(reset.Value), parameter(remaining, "w"), parameter(limit, "w")))
}

// quotaOfDictionary reads RateLimit: limit=100, remaining=50, reset=5.
func quotaOfDictionary(h http.Header) (Quota, bool) {
	values, ok := field(h, "Ratelimit")
	if !ok {
		return Quota{}, false
	}
	dictionary, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return Quota{}, false
	}
	value := func(key string) any {
		member, _ := dictionary.Get(key)
		item, _ := member.(httpsfv.Item)
		return item.Value
	}
	return quotaOf(value("limit"), value("remaining"), integer(value("reset")))
}

// quotaOfPolicies reads RateLimit: "hour";r=50;t=30 with RateLimit-Policy: "hour";q=100;w=3600.
// Of several policies it returns the one of which the smallest part is left.
func quotaOfPolicies(h http.Header) (least Quota, found bool) {
	policies := map[any]httpsfv.Item{}
	for _, p := range items(h, "Ratelimit-Policy") {
		if name, ok := p.Value.(string); ok {
			policies[name] = p
		}
	}
	for _, said := range items(h, "Ratelimit") {
		name, _ := said.Value.(string)
		p, ok := policies[name]
		if !ok {
			continue
		}
		limit, _ := p.Params.Get("q")
		remaining, _ := said.Params.Get("r")
		q, ok := quotaOf(limit, remaining, cmp.Or(parameter(said, "t"), parameter(p, "w")))
		if ok && (!found || float64(q.Remaining)*float64(least.Limit) < float64(least.Remaining)*float64(q.Limit)) {
			least, found = q, true
		}
	}
	return least, found
}

func quotaOf(limit, remaining any, seconds int64) (Quota, bool) {
	l, isLimit := limit.(int64)
	r, isRemaining := remaining.(int64)
	if seconds > int64(maxWindow/time.Second) {
		seconds = 0
	}
	return Quota{Limit: l, Remaining: r, Window: time.Duration(seconds) * time.Second}, isLimit && isRemaining
}

// field returns the values of a header, unless it is absent or too long to be read.
func field(h http.Header, name string) ([]string, bool) {
	values := h[name]
	size := 0
	for _, v := range values {
		size += len(v)
	}
	return values, size > 0 && size <= maxQuotaField
}

// items returns the members of a list that are no lists themselves.
func items(h http.Header, name string) (all []httpsfv.Item) {
	values, ok := field(h, name)
	if !ok {
		return nil
	}
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return nil
	}
	for _, member := range list {
		if item, ok := member.(httpsfv.Item); ok {
			all = append(all, item)
		}
	}
	return all
}

func firstItem(h http.Header, name string) (httpsfv.Item, bool) {
	all := items(h, name)
	if len(all) == 0 {
		return httpsfv.Item{}, false
	}
	return all[0], true
}

// parameter returns an integer parameter of an item, 0 for none.
func parameter(item httpsfv.Item, name string) int64 {
	if item.Params == nil {
		return 0
	}
	value, _ := item.Params.Get(name)
	return integer(value)
}

// integer returns 0 for anything else.
func integer(value any) int64 {
	n, _ := value.(int64)
	return n
}
