// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// errDead is why a request is given up on a connection: it was answered on another.
var errDead = errors.New("the connection is dead")

// second is the second try of a request whose connection has served others before, and is
// silent now. A balancer may have forgotten the connection without a word.
//
// A ping goes with the request on HTTP/2: an end that answers pings is there, however long
// the request takes. One that does not, while there is a new connection to the host, is dead,
// whatever becomes of the request. HTTP/1.1 has no such thing: there, an answer that is late may
// have the request sent twice, and only an answer to the second try tells that the first
// connection is dead, since the request may hang on any.
type second struct {
	lane  *lane
	first *generation
	used  *usage // by the first try
	req   *http.Request
	sent  *http.Request           // what both tries send
	dead  context.CancelCauseFunc // ends the first try

	mu     sync.Mutex
	on     httptrace.GotConnInfo // the connection of the first try
	spoken protocol              // on it
	ping   func()                // it, where that is HTTP/2
	signs  uint64                // of life on it, until now
	pause  time.Duration         // until it is looked for others
	send   time.Time             // the second try is not sent before
	timer  *time.Timer           // nil = the connection is new
	over   bool                  // the first try has ended
	heard  bool                  // its connection is alive, or has given an answer
	made   *conn                 // on which the second try is sent, with connections of its own; nil = it is not yet
	speaks protocol              // on that
	cancel context.CancelFunc
	done   chan struct{} // closed when it is decided; nil = it has not begun

	resp *http.Response // of the second try, if it was first
	by   *usage
}

// ask sends a request over connections of g, and a second time over others while a used
// one is silent.
func (l *lane) ask(g *generation, req *http.Request) (*http.Response, *usage, error) {
	began := time.Now()
	if ofPull(req.Context()) {
		return l.once(g, req, &usage{began: began})
	}
	sent, over := sharedBody(req)
	defer over()
	ctx, cancel := context.WithCancelCause(req.Context())
	s := &second{lane: l, first: g, used: &usage{began: began}, req: req, sent: sent, dead: cancel}
	s.used.connected = s.watch
	resp, used, err := l.once(g, sent.WithContext(ctx), s.used)
	if err == nil {
		l.timed(used, began)
	}
	if won, by := s.end(req.Context(), err != nil); won != nil {
		cancel(nil)
		if err == nil {
			_ = resp.Body.Close()
		}
		g.closeLeft()
		return won, by, nil
	}
	if err != nil {
		cancel(nil)
		g.closeLeft()
		return nil, used, err
	}
	resp.Request = req
	resp.Body = &endBody{ReadCloser: resp.Body, end: func() { cancel(nil) }}
	return resp, used, nil
}

// watch begins to wait for a sign of life on the connection that the first try has got.
func (s *second) watch(on httptrace.GotConnInfo, spoken protocol) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop() // net/http has left the connection before it
		s.timer = nil
	}
	if !on.Reused || s.over || s.done != nil {
		return
	}
	s.on, s.spoken = on, spoken
	if spoken == http2 {
		s.ping = s.first.modern.pinger(on.Conn, s.lane.pinged)
	}
	s.timer = time.AfterFunc(s.listen(), s.run)
}

// listen waits for a sign of life from now on, and returns how long, which is longer each
// time. The caller holds the lock.
func (s *second) listen() time.Duration {
	start, send := s.lane.patience(s.spoken)
	s.pause = max(start, min(2*s.pause, minSilence))
	s.send = time.Now().Add(send - start + s.pause)
	if c := under(s.on.Conn); c != nil {
		s.signs = c.signs.Load()
	}
	if s.spoken == http2 {
		s.ping()
	}
	return s.pause
}

// alive reports whether there was a sign of life. The caller holds the lock.
func (s *second) alive() bool {
	c := under(s.on.Conn)
	return c != nil && c.signs.Load() != s.signs
}

// run is the second try, on a goroutine of its own.
func (s *second) run() {
	next, own, ctx := s.begin()
	if next == nil {
		return
	}
	used := &usage{began: time.Now()}
	if own {
		used.connected = func(on httptrace.GotConnInfo, spoken protocol) { s.hold(ctx, next, on, spoken) }
	}
	var resp *http.Response
	again, ok := rewind(s.sent)
	err := errors.New("its body is gone")
	if ok {
		resp, used, err = s.lane.once(next, again.WithContext(ctx), used) //nolint:bodyclose // decide does
	}
	s.decide(next, own, used, resp, err)
}

// decide ends the second try.
func (s *second) decide(next *generation, own bool, used *usage, resp *http.Response, err error) {
	s.mu.Lock()
	answered := err == nil && !s.over
	var leaves *generation
	if own {
		leaves = s.lane.decided(s.first, next, s.verdict(answered), s.made, s.speaks)
	}
	if answered {
		resp.Request = s.req
		resp.Body = &endBody{ReadCloser: resp.Body, end: s.cancel}
		s.resp, s.by = resp, used
		s.dead(errDead)
	}
	s.mu.Unlock()
	close(s.done)
	s.leave(leaves)
	if answered {
		if fails(resp.StatusCode) { // once left nothing then: next was not in use yet
			s.lane.forsake(next)
		}
		return
	}
	if err == nil {
		_ = resp.Body.Close()
	}
	s.cancel()
	next.closeLeft()
}

// leave ends connections, nil for none: those of the first try where they are dead.
func (s *second) leave(leaves *generation) {
	if leaves == nil {
		return
	}
	leaves.leave()
	if leaves == s.first {
		s.lane.doubt(s.lane)
	}
}

// verdict says what has come of the second try, which has an answer that counts, or not. The caller
// holds the lock.
func (s *second) verdict(answered bool) verdict {
	switch {
	case answered:
		return won
	case s.heard:
		return needless
	}
	return hung
}

// begin returns the connections for the second try, and its context; nil where there is
// none, now or at all. own tells that the connections are made for it.
func (s *second) begin() (next *generation, own bool, ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.timer == nil {
		return nil, false, nil
	}
	if s.alive() {
		s.timer.Reset(s.listen())
		return nil, false, nil
	}
	if next, own = s.lane.second(s.first); next == nil {
		start, _ := s.lane.patience(s.spoken)
		s.timer.Reset(max(start, minSecond)) // until that of another request is decided
		return nil, false, nil
	}
	s.done = make(chan struct{})
	ctx, cancel := context.WithCancelCause(s.req.Context())
	s.cancel = func() { cancel(errOver) }
	return next, own, ctx
}

// hold holds the second try up when there is a connection of next for it, until it is to be sent.
// Where it is not to be sent any more, it ends the connection: net/http would send it.
func (s *second) hold(ctx context.Context, next *generation, on httptrace.GotConnInfo, spoken protocol) {
	s.mu.Lock()
	send := s.send
	s.mu.Unlock()
	timer := time.NewTimer(time.Until(send))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	c := under(on.Conn)
	if c == nil {
		return
	}
	var leaves *generation
	s.mu.Lock()
	s.heard = s.heard || s.alive()
	needless := s.over || s.heard || ctx.Err() != nil
	if !needless {
		s.made, s.speaks = c, spoken
		leaves = s.lane.made(s.first, next, c, spoken, s.spoken == http2)
	}
	s.mu.Unlock()
	s.leave(leaves)
	if needless {
		s.cancel()
		_ = c.Close()
	}
}

// end tells that the first try has ended, and returns the answer to the second where that
// was first, or where the first has failed and the second has not.
func (s *second) end(ctx context.Context, failed bool) (*http.Response, *usage) {
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	done := s.done
	waits := failed && done != nil && ctx.Err() == nil
	if !waits {
		s.over, s.heard = true, s.heard || !failed
	}
	if done != nil && s.resp == nil && !waits {
		s.cancel()
	}
	s.mu.Unlock()
	if waits {
		<-done
		s.mu.Lock()
		defer s.mu.Unlock()
		s.over = true
	}
	return s.resp, s.by
}
