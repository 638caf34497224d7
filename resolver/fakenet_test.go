// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/pool"
)

// scripted is how a host answers.
type scripted func(*http.Request) (*http.Response, error)

// fakeNet answers by host, in synctest bubbles.
type fakeNet struct {
	mu     sync.Mutex
	log    []string // METHOD host
	answer map[string]scripted
}

func (n *fakeNet) roundTrip(req *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.log = append(n.log, req.Method+" "+req.URL.Host)
	answer := n.answer[req.URL.Host]
	n.mu.Unlock()
	return answer(req)
}

func (n *fakeNet) set(host string, answer scripted) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answer == nil {
		n.answer = map[string]scripted{}
	}
	n.answer[host] = answer
}

// asked returns the requests since it was called last.
func (n *fakeNet) asked() (log []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	log, n.log = n.log, nil
	return log
}

func fine(req *http.Request) (*http.Response, error) { return manifestAnswer(req), nil }

func mute(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// swallows makes no connection, as a host behind a firewall.
func swallows(req *http.Request) (*http.Response, error) {
	return after(30*time.Second, func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	})(req)
}

func answering(code int, header ...string) scripted {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return answer(req, code, h, ""), nil
	}
}

const mirrorName = "mirror.test"

// once opens a session, checks, and closes it. No request of the check is sent a second time:
// on a busy machine, connections are silent that are well.
func once(ctx context.Context, r *Resolver, query Query, timeout time.Duration) (Resolution, error) {
	if query.Reference == "" {
		query.Reference = imageRef
	}
	s, err := r.Open(ctx, query)
	if err != nil {
		return Resolution{}, err
	}
	defer s.Close()
	return s.Resolve(pool.WithOneTry(ctx), timeout)
}

func wantAsked(t *testing.T, n *fakeNet, want ...string) {
	t.Helper()
	if got := n.asked(); !slices.Equal(got, want) {
		t.Errorf("got requests %v, want %v", got, want)
	}
}

// trouble lets a probe find a host in trouble, which it is for all then. The next probe
// finds it well.
func trouble(t *testing.T, r *Resolver, key health.Key, v health.Verdict) {
	t.Helper()
	var again atomic.Bool
	r.health.Failed(key, func(context.Context) health.Verdict {
		if again.Swap(true) {
			return health.Verdict{}
		}
		return v
	}, false)
	waitFor(t, func() bool { return r.health.Blocked(key) })
}

var unavailable = health.Verdict{Class: failure.Unavailable, Reason: "it answered 503"}
