// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// pins notes what it is told.
type pins struct {
	may  bool // a rule for other pods pins
	told string
}

func (p *pins) Keep(context.Context, string) { p.told += "keep" }
func (p *pins) Used(string)                  { p.told += "used" }
func (p *pins) Pulled(string)                { p.told += "pulled" }
func (p *pins) Review(string)                { p.told += "review" }
func (p *pins) MayPin(string) bool           { return p.may }

// A request pins or releases the image of its tag, and a pull brings a pin along.
func TestPin(t *testing.T) {
	const pin, other = "pin = true", "pin = false"
	for name, tc := range map[string]struct {
		rule     string
		pinned   bool // by pullwarden, before
		may      bool
		byDigest bool
		change   func(*node)
		told     string
		pulled   bool // the pull brings a pin
		used     bool // the outcome says that the directive took part
	}{
		"reuse":                                 {rule: pin, may: true, told: "keep", used: true},
		"reuse of a pinned one":                 {rule: pin, pinned: true, may: true, told: "keep", used: true},
		"pull":                                  {rule: pin, may: true, change: moved, told: "pulledkeep", pulled: true, used: true},
		"pull that fails once it is stored":     {rule: pin + "\nallowed_sources = [\"*\"]", may: true, change: differs, told: "pulled"},
		"failure":                               {rule: pin, pinned: true, may: true, change: broken, told: ""},
		"another rule":                          {rule: other, may: true, told: ""},
		"another rule, pinned":                  {rule: other, pinned: true, may: true, told: "used"},
		"another rule's pull, pinned":           {rule: other, pinned: true, may: true, change: moved, told: "pulledused", pulled: true},
		"another rule's pull, pinned meanwhile": {rule: other, may: true, change: pinnedMeanwhile, told: "pulled", pulled: true},
		"no rule's pull, pinned meanwhile":      {rule: other, change: pinnedMeanwhile, told: ""},
		"no rule":                               {rule: other, told: ""},
		"no rule any more":                      {rule: other, pinned: true, told: "review"},
		"no rule any more, at a pull":           {rule: other, pinned: true, change: moved, told: "review"},
		"no rule any more, at a failure":        {rule: other, pinned: true, change: broken, told: "review"},
		"by digest":                             {rule: pin, may: true, byDigest: true, told: ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{remote: first, record: cachedImage(first, now.Add(-time.Hour))}
			if tc.pinned {
				n.record.Pin = store.Pin{Own: true, Used: now}
			}
			if tc.change != nil {
				tc.change(n)
			}
			told := &pins{may: tc.may}
			e := n.engine(rule(tc.rule))
			e.Pins = told
			req := n.request(nil)
			if tc.byDigest {
				req.Digest = first.Digest.String()
			}
			o, _ := e.Ensure(t.Context(), req)
			if told.told != tc.told {
				t.Errorf("%s: told %q, want %q", o.Kind, told.told, tc.told)
			}
			if o.Kind == Pulled && n.record.Pin.Own != tc.pulled {
				t.Errorf("the pull leaves the pin %+v", n.record.Pin)
			}
			if used := slices.Contains(o.Used, policy.KeyPin); used != tc.used {
				t.Errorf("decided by %s", o.DecidedBy())
			}
		})
	}
}

func moved(n *node) { n.remote = second }

// differs has the bytes of the new image differ from what others bring of it while it is stored.
func differs(n *node) {
	n.remote, n.verifyFails = second, true
	n.onStore = func(s *store.State) { s.PullSource, n.unpacked = name, []string{"?"} }
}

// pinnedMeanwhile has a pod of another namespace pin the image while the new one comes.
func pinnedMeanwhile(n *node) {
	n.remote = second
	n.onPull = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.record.Pin = store.Pin{Own: true, Used: now}
	}
}

func broken(n *node) { n.checkFails = failure.Forbidden }
