// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
)

// What is forgotten is not kept in what was gathered for the last text either.
func TestForgottenSecretsAreNotKept(t *testing.T) {
	const clients = 50
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, all := heap(), make([]*Redactor, 0, clients)
	for i := range clients {
		r := &Redactor{}
		for k := range 16 {
			r.AddToken("Bearer " + fmt.Sprintf("%d-%d", i, k) + strings.Repeat("t", 60<<10))
		}
		u, err := url.Parse("http://h/p?sig=" + fmt.Sprint(i) + strings.Repeat("q", 60<<10))
		if err != nil {
			t.Fatal(err)
		}
		r.AddURL(u)
		_ = r.Clean("an error")
		r.ForgetQueries()
		r.KeepTokens(2)
		all = append(all, r)
	}
	kept := (heap() - before) / clients
	runtime.KeepAlive(all)
	if kept > 200<<10 {
		t.Errorf("each keeps %d KiB, of 2 tokens of 60 KiB", kept>>10)
	}
}
