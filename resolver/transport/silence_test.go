// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// pausingBody is a body of which each byte comes after a pause.
type pausingBody struct {
	ctx    context.Context
	pauses []time.Duration
}

func (b *pausingBody) Read(p []byte) (int, error) {
	if len(b.pauses) == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(b.pauses[0]):
		b.pauses = b.pauses[1:]
		p[0] = 'x'
		return 1, nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func (b *pausingBody) Close() error { return nil }

// A host may be silent in the middle of content for so long, while somebody reads, and another
// host can give the rest. Then the session leaves it alone and has it probed, which decides for
// the others.
func TestSilenceInContent(t *testing.T) {
	const (
		wait = 3 * time.Second
		long = time.Hour
	)
	layer := purpose.Purpose{Kind: purpose.Fetch, Patience: wait, Next: []health.Key{nextHost}}
	document := purpose.Purpose{Kind: purpose.Fetch, Document: true, Next: []health.Key{nextHost}}
	with := func(p purpose.Purpose, change func(*purpose.Purpose)) purpose.Purpose {
		change(&p)
		return p
	}
	for name, test := range map[string]silentContent{
		"it goes on":                   {layer, []time.Duration{0, 0}, 0, false, 0, nil},
		"it trickles":                  {layer, []time.Duration{wait - 1, wait - 1, wait - 1}, 0, false, 3 * (wait - 1), nil},
		"it says nothing":              {layer, []time.Duration{long}, 0, false, wait, ErrSilent},
		"it falls silent":              {layer, []time.Duration{time.Second, long}, 0, false, time.Second + wait, ErrSilent},
		"who reads takes time":         {layer, []time.Duration{0, wait - 1, 0}, 2 * wait, false, 3*2*wait + wait - 1, nil},
		"there is no other host":       {with(layer, func(p *purpose.Purpose) { p.Next = nil }), []time.Duration{long}, 0, false, long, nil},
		"the next is in trouble":       {layer, []time.Duration{long}, 0, true, long, nil},
		"others may be in trouble":     {with(layer, func(p *purpose.Purpose) { p.Force = true }), []time.Duration{long}, 0, false, wait, ErrSilent},
		"nothing else is left":         {with(layer, func(p *purpose.Purpose) { p.Force, p.Patient = true, true }), []time.Duration{long}, 0, false, long, nil},
		"a document of others alike":   {with(document, func(p *purpose.Purpose) { p.Force = true }), []time.Duration{long}, 0, false, documentTimeout, ErrSilent},
		"pulls have no bound":          {with(layer, func(p *purpose.Purpose) { p.Patience = 0 }), []time.Duration{long}, 0, false, long, nil},
		"a document":                   {document, []time.Duration{long}, 0, false, documentTimeout, ErrSilent},
		"a document of a short pull":   {with(document, func(p *purpose.Purpose) { p.Patience = wait }), []time.Duration{long}, 0, false, wait, ErrSilent},
		"a document of a long pull":    {with(document, func(p *purpose.Purpose) { p.Patience = long }), []time.Duration{long}, 0, false, documentTimeout, ErrSilent},
		"the caller leaves":            {layer, []time.Duration{wait - 1, long}, 0, false, wait, context.Canceled},
		"the caller leaves a document": {document, []time.Duration{long}, 0, false, wait, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test.run) })
	}
}

// silentContent is how a host sends content, and what becomes of it.
type silentContent struct {
	purpose purpose.Purpose
	pauses  []time.Duration
	reads   time.Duration // between two reads
	trouble bool          // nextHost is in trouble
	took    time.Duration
	want    error // nil = all of it comes
}

var nextHost = health.KeyOf("http", "next.test")

func (test silentContent) run(t *testing.T) {
	breakers := health.New()
	defer breakers.Close()
	if test.trouble {
		breakers.Failed(nextHost, func(context.Context) health.Verdict { return health.Verdict{Class: failure.Unreachable} }, true)
		synctest.Wait()
	}
	probes := 0
	c := config(roundTrip(func(req *http.Request) (*http.Response, error) {
		resp := answer(req, http.StatusOK, "")
		resp.Body = &pausingBody{ctx: req.Context(), pauses: test.pauses}
		return resp, nil
	}))
	c.Probe = roundTrip(func(req *http.Request) (*http.Response, error) {
		probes++
		return answering(http.StatusUnauthorized)(req)
	})
	test.purpose.Health = breakers.View(nil)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if errors.Is(test.want, context.Canceled) {
		time.AfterFunc(test.took, leave)
	}
	began := time.Now()
	err := readAll(ctx, t, c.Registry(nil), test.purpose, test.reads)
	if took := time.Since(began); !errors.Is(err, test.want) || took != test.took {
		t.Errorf("got %v after %v, want %v after %v", err, took, test.want, test.took)
	}
	synctest.Wait()
	silent := errors.Is(test.want, ErrSilent)
	if left := test.purpose.Health.Blocked(key, 0); left != silent || (probes > 0) != silent || breakers.Blocked(key) {
		t.Errorf("left alone: %v, %d probes, in trouble for all: %v", left, probes, breakers.Blocked(key))
	}
}

// readAll reads an answer of the registry, with a pause before each read.
func readAll(ctx context.Context, t *testing.T, rt http.RoundTripper, p purpose.Purpose, pause time.Duration) error {
	t.Helper()
	req, err := http.NewRequestWithContext(purpose.With(ctx, p), http.MethodGet, address+"/v2/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for piece := make([]byte, 1); ; {
		if _, err := resp.Body.Read(piece); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		time.Sleep(pause)
	}
}
