// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"net"
	"net/http/httptrace"
	"os"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// Dialing tells how the connection comes about of a request for which several wait: who began it has the time, and
// others may have another host. Where hosts.toml sets a dial_timeout, it tells nothing. Safe for concurrent use.
type Dialing struct {
	tell func()

	mu    sync.Mutex
	on    bool        // the request is on a connection
	timer *time.Timer // of what is under way, nil = nothing is
	began time.Time   // the same
	late  error
}

// NewDialing returns a Dialing that calls tell when Late begins to say something, and from time to time where LateAgain
// may.
func NewDialing(tell func()) *Dialing { return &Dialing{tell: tell} }

// Late is the error with which those would have given up by now who have another host, nil where they would wait.
func (d *Dialing) Late() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.late
}

// LateAgain is Late for those who give the connection its second dial, and have waited since then.
func (d *Dialing) LateAgain(since time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if since.Before(d.began) {
		since = d.began
	}
	if !fault.DialTimedOut(d.late) || time.Since(since) < SecondDial {
		return nil
	}
	return d.late
}

// With returns a context that has d be told of one request.
func (d *Dialing) With(ctx context.Context) context.Context {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { d.settle(false) },
		GotConn: func(httptrace.GotConnInfo) { d.settle(true) },
	})
	return withHandshakes(ctx, &handshakes{dialing: d})
}

// Done says that the request has ended, whatever of its connection goes on.
func (d *Dialing) Done() { d.settle(true) }

// begin begins the time for an operation.
func (d *Dialing) begin(operation string, within time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.on { // it goes on in vain
		return
	}
	d.stop()
	d.began = time.Now()
	var timer *time.Timer
	timer = time.AfterFunc(within, func() {
		d.mu.Lock()
		current := d.timer == timer
		if current {
			d.late = &net.OpError{Op: operation, Net: "tcp", Err: os.ErrDeadlineExceeded}
			timer.Reset(max(SecondDial-time.Since(d.began), ShortDial)) // the second dial of who joins later ends later
		}
		d.mu.Unlock()
		if current {
			d.tell()
		}
	})
	d.timer = timer
}

// settle ends what is under way, and says whether the request is on a connection.
func (d *Dialing) settle(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = on
	d.stop()
}

// end ends what is under way.
func (d *Dialing) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stop()
}

// stop has Late say nothing. The caller holds the lock.
func (d *Dialing) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.timer, d.late = nil, nil
}
