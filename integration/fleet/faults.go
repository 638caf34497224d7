// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// FaultKind says what is wrong with a registry.
type FaultKind uint8

// The faults.
const (
	None     FaultKind = iota
	Refuse             // it refuses connections, at once
	Swallow            // it swallows packets: nobody answers
	Fail               // it answers 503
	Limit429           // it answers 429, without a word on how long
	Slow               // it takes Latency longer to answer
)

// Fault is what is wrong with a registry for some time, counted from its start.
type Fault struct {
	Kind     FaultKind
	From, To time.Duration
	Latency  time.Duration
}

func (r *Registry) faultNow() Fault {
	since := time.Since(r.start)
	for _, f := range r.faults {
		if since >= f.From && since < f.To {
			return f
		}
	}
	return Fault{}
}

// connect fails where there is no connection to be had.
func (f Fault) connect(ctx context.Context, rtt, timeout time.Duration) error {
	switch f.Kind {
	case Refuse:
		if err := pause(ctx, rtt); err != nil {
			return err
		}
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case Swallow:
		if err := pause(ctx, timeout); err != nil {
			return err
		}
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	default:
		return nil
	}
}

// answer is that of a registry that answers no more than its fault.
func (f Fault) answer() (a answer, failed bool) {
	switch f.Kind {
	case Fail:
		return answer{status: http.StatusServiceUnavailable}, true
	case Limit429:
		return answer{status: http.StatusTooManyRequests}, true
	default:
		return answer{}, false
	}
}
