// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker/auth"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// prober asks a configured host, or its token server, whether it is well: without any
// caller's credentials, for nobody's image, and following no redirect. The headers of
// the node's configuration are sent, as requests send them to both: they are the node's,
// and a gateway in front may answer 5xx without.
type prober struct {
	next    http.RoundTripper // judges answers, on connections of its own
	host    home
	root    string // URL of the API: https://host/v2/
	api     string // the same without a project behind it
	headers []http.Header
}

// newProber returns the prober of a host, nil when the chain has no way to ask it.
func newProber(c Config) *prober {
	if c.Probe == nil {
		return nil
	}
	redactor := &redact.Redactor{}
	for _, headers := range c.Headers {
		redactor.AddHeaders(headers)
	}
	return &prober{
		next: &classify{next: c.observed(c.Probe, redactor, false), redactor: redactor},
		host: c.home(), root: c.Root, api: c.API, headers: c.Headers,
	}
}

// registry probes the host itself.
func (p *prober) registry(ctx context.Context) health.Verdict {
	_, v := p.ask(ctx, p.root)
	return v
}

// tokenServer returns the probe of a host that answers requests for tokens. Only the one
// that the host itself names is asked: any other is well, as far as others are
// concerned. Where the host does not say which that is, since it is silent or limits the node, nothing is known.
func (p *prober) tokenServer(key string) health.Probe {
	return func(ctx context.Context) health.Verdict {
		header, _ := p.ask(ctx, p.api)
		if header == nil {
			return health.Verdict{Unknown: true}
		}
		for _, c := range auth.ParseAuthHeader(header) {
			realm, err := url.Parse(c.Parameters["realm"])
			if c.Scheme != auth.BearerAuth || err != nil || p.host.hostOf(realm) != key {
				continue
			}
			query := realm.Query()
			query.Set("service", c.Parameters["service"])
			realm.RawQuery = query.Encode()
			_, v := p.ask(ctx, realm.String())
			return v
		}
		return health.Verdict{}
	}
}

// errSilent is why a probe ends whose host has given no sign of life for its time.
var errSilent = fmt.Errorf("no sign of life: %w", context.DeadlineExceeded)

// ask makes one request. Anything that makes sense is an answer, 429 too: it is the
// anonymous quota of the node, and callers have their own. Where the probe ends before
// the host was silent for its time, nothing is known. The header is nil where there is none to read.
func (p *prober) ask(ctx context.Context, address string) (http.Header, health.Verdict) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	step := newStep(func() { cancel(errSilent) })
	defer step.stop()
	req, err := http.NewRequestWithContext(step.listening(ctx), http.MethodGet, address, nil)
	if err != nil {
		return nil, health.Verdict{Unknown: true}
	}
	for _, header := range p.headers {
		for name, values := range header {
			req.Header[name] = append(req.Header[name], values...)
		}
	}
	start := time.Now()
	resp, err := p.next.RoundTrip(req)
	v := health.Verdict{Recovered: step.late.Load()}
	if err == nil {
		_ = resp.Body.Close()
		return resp.Header, v
	}
	f, judged := fault.As(err)
	switch {
	case judged:
	case context.Cause(ctx) != errSilent: //nolint:errorlint // it is never wrapped
		return nil, health.Verdict{Unknown: true}
	default:
		f = &fault.Fault{Class: failure.Unreachable, Err: errors.Join(err, context.DeadlineExceeded)}
	}
	if seen, _ := judge(f, start); seen.Class != failure.RateLimited {
		v.Class, v.Reason = seen.Class, seen.Reason
	}
	return nil, v
}

// step is one of those of a probe, in which the host is silent. A host that is far away needs long for
// all of them, and not for one.
type step struct {
	bound *time.Timer // ends the probe
	slow  *time.Timer // sets late
	late  atomic.Bool // one has lasted for as long as checks wait for a probe
}

func newStep(end func()) *step {
	s := &step{bound: time.AfterFunc(health.ProbeTime, end)}
	s.slow = time.AfterFunc(health.MaxWait, func() { s.late.Store(true) })
	return s
}

func (s *step) stop() {
	s.bound.Stop()
	s.slow.Stop()
}

// listening has the next step begin at each sign of life, with all of its time.
func (s *step) listening(ctx context.Context) context.Context {
	alive := func(err error) {
		if err == nil {
			s.bound.Reset(health.ProbeTime)
			s.slow.Reset(health.MaxWait)
		}
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone:     func(info httptrace.DNSDoneInfo) { alive(info.Err) },
		ConnectDone: func(_, _ string, err error) { alive(err) },
		// It begins once a proxy, if there is one, has answered, which connects to the host before.
		TLSHandshakeStart: func() { alive(nil) },
		TLSHandshakeDone:  func(_ tls.ConnectionState, err error) { alive(err) },
	})
}
