// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// A token server that has begun its answer has so long for all of it, whoever waits for the token.
// Then the session leaves it alone, and has it probed.
func TestTokensEndInTime(t *testing.T) {
	const (
		patience = 3 * time.Second
		long     = time.Hour
	)
	fetch := purpose.Purpose{Kind: purpose.Fetch, Patience: patience, Next: []health.Key{nextHost}}
	for name, test := range map[string]slowToken{
		"it goes on":               {purpose: fetch, pauses: []time.Duration{time.Second, time.Second}, took: 2 * time.Second},
		"it says nothing":          {purpose: fetch, pauses: []time.Duration{long}, took: patience, want: errUnfinished},
		"it trickles":              {purpose: fetch, pauses: []time.Duration{patience - 1, patience - 1}, took: patience, want: errUnfinished},
		"more than is taken":       {purpose: fetch, pauses: []time.Duration{long}, length: maxToken + 2, took: patience, want: errUnfinished},
		"a redirect":               {purpose: fetch, pauses: []time.Duration{long}, status: http.StatusTemporaryRedirect, took: patience / 2, want: errUnfinished},
		"a pull that may be long":  {purpose: purpose.Purpose{Kind: purpose.Fetch, Patience: long}, pauses: []time.Duration{long}, took: documentTimeout, want: errUnfinished},
		"a pull without a bound":   {purpose: purpose.Purpose{Kind: purpose.Fetch}, pauses: []time.Duration{long}, took: documentTimeout, want: errUnfinished},
		"the last host":            {purpose: purpose.Purpose{Kind: purpose.Fetch, Last: true}, pauses: []time.Duration{long}, took: documentTimeout, want: errUnfinished},
		"a check":                  {purpose: purpose.Purpose{Kind: purpose.Check, Last: true}, pauses: []time.Duration{long}, took: documentTimeout, want: errUnfinished},
		"a check with less time":   {purpose: purpose.Purpose{Kind: purpose.Check}, pauses: []time.Duration{long}, budget: time.Second, took: time.Second, want: context.DeadlineExceeded},
		"the answer is slow":       {purpose: fetch, begins: 2 * patience, took: 2 * patience},
		"a slow answer that hangs": {purpose: fetch, begins: 2 * patience, pauses: []time.Duration{long}, took: 3 * patience, want: errUnfinished},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test.run) })
	}
}

// slowToken is how a token server answers, and what becomes of it.
type slowToken struct {
	purpose purpose.Purpose
	begins  time.Duration // until it begins its answer
	pauses  []time.Duration
	length  int64         // as it says; 0 = it does not
	status  int           // 0 = 200
	budget  time.Duration // of a check; 0 = it has no end
	took    time.Duration
	want    error // nil = all of it comes
}

func (test slowToken) run(t *testing.T) {
	breakers := health.New()
	defer breakers.Close()
	test.purpose.Health = breakers.View(nil)
	var probes atomic.Int32
	c := config(roundTrip(func(req *http.Request) (*http.Response, error) {
		time.Sleep(test.begins)
		resp := answer(req, cmp.Or(test.status, http.StatusOK), "", "Location", "/elsewhere")
		resp.Body, resp.ContentLength = &pausingBody{ctx: req.Context(), pauses: test.pauses}, cmp.Or(test.length, -1)
		return resp, nil
	}))
	c.Probe = roundTrip(func(req *http.Request) (*http.Response, error) {
		probes.Add(1)
		return answering(http.StatusUnauthorized)(req)
	})
	ctx := t.Context()
	if test.budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, test.budget, ErrBudget)
		defer cancel()
	}
	began := time.Now()
	err := readAll(ctx, t, c.Token(), test.purpose, 0)
	f, judged := fault.As(err)
	if judged {
		err = f.Err
	}
	if took := time.Since(began); !errors.Is(err, test.want) || took != test.took || judged && f.Class != failure.Unreachable {
		t.Errorf("got %v after %v, want %v after %v", err, took, test.want, test.took)
	}
	synctest.Wait()
	if left := test.purpose.Health.Blocked(health.Key{Host: key.Host, For: key.Host, Tokens: true}, 0); left != (test.want != nil) || (probes.Load() > 0) != (test.want != nil || test.purpose.Kind == purpose.Check) {
		t.Errorf("left alone: %v, %d probes", left, probes.Load())
	}
}
