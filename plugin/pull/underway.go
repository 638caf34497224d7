// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
)

// UnderWay is a pull that has not ended.
type UnderWay struct {
	Reference string
	Began     time.Time
	Hosts     []string // that have served what has come so far, as references spell them
	Bytes     int64    // that have come
	Total     int64    // of the content whose download has begun, maxTotal at most
}

// maxTotal bounds, in bytes, the sum of sizes that a manifest claims: a number in
// JSON is exact up to there.
const maxTotal = 1 << 53

// UnderWay lists the pulls under way, the oldest first.
func (p *Puller) UnderWay() []UnderWay { return p.underWay.list() }

// underWay are pulls that have not ended. The zero value has none.
type underWay struct {
	mu    sync.Mutex
	pulls map[*watch]running
}

type running struct {
	began  time.Time
	source any // a pwtransfer.SourceReporter, where it tells who serves
}

// add adds a pull until the result is called.
func (u *underWay) add(w *watch, source any) (remove func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pulls == nil {
		u.pulls = map[*watch]running{}
	}
	u.pulls[w] = running{time.Now(), source}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.pulls, w)
	}
}

func (u *underWay) list() []UnderWay {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make([]UnderWay, 0, len(u.pulls))
	for w, r := range u.pulls {
		all = append(all, w.underWay(r))
	}
	slices.SortFunc(all, func(a, b UnderWay) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Reference, b.Reference))
	})
	return all
}

// fetched is how much of some content has come.
type fetched struct{ bytes, total int64 }

func (w *watch) underWay(r running) UnderWay {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := UnderWay{Reference: w.reference, Began: r.began}
	for d, f := range w.fetched {
		u.Bytes += f.bytes
		u.Total = min(u.Total+min(max(f.total, 0), maxTotal), maxTotal)
		u.Hosts = append(u.Hosts, hostsOf(r.source, d)...)
	}
	slices.Sort(u.Hosts)
	u.Hosts = slices.Compact(u.Hosts)
	return u
}

func hostsOf(source any, d digest.Digest) []string {
	reporter, ok := source.(pwtransfer.SourceReporter)
	if !ok {
		return nil
	}
	return reporter.ServedBy(d).Hosts
}
