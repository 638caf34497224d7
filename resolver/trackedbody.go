// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/transport"
)

// trackedBody records which host content came from, and why it broke off: docker's fetcher resumes
// after io.ErrUnexpectedEOF. One that is silent, or sends what breaks the protocol, breaks off, too,
// and the pull asks the others for the rest.
type trackedBody struct {
	io.ReadCloser
	req    *http.Request
	fetch  *fetch
	host   *host
	start  time.Time
	skip   int64 // bytes before those that were asked for, which docker's fetcher throws away
	served bool
}

// skipped returns how many bytes of an answer nobody has asked for: all before the offset, where
// the host knows no ranges.
func skipped(req *http.Request, resp *http.Response) (n int64) {
	if resp.StatusCode == http.StatusPartialContent || resp.Header.Get("Content-Range") != "" {
		return 0
	}
	offset, ok := strings.CutPrefix(req.Header.Get("Range"), "bytes=")
	if n, _ = strconv.ParseInt(strings.TrimSuffix(offset, "-"), 10, 64); !ok || n < 0 {
		return 0
	}
	return n
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	of, redactor := b.fetch, b.host.chain.Redactor
	skip := min(int64(n), b.skip)
	if skip > 0 { // the read that waits does not see them
		b.skip -= skip
		of.log.progress.bytes.Add(skip)
	}
	if int64(n) > skip && !b.served {
		b.served = true
		of.log.served(of.digest, b.host)
	}
	switch ctx, elapsed := b.req.Context(), time.Since(b.start); {
	case err == nil, err == io.EOF: //nolint:errorlint // docker's does not look into it either
	case ctx.Err() != nil:
		of.log.interrupted(of.digest, b.host, redactor.Request(b.req, context.Cause(ctx)), elapsed)
	default:
		class := fault.TransportClass(err, false)
		clean := redactor.Failed(b.req, err)
		of.log.failed(of.digest, b.host, class, clean, elapsed)
		switch {
		case class == failure.Unreachable:
			over := errors.Is(err, context.DeadlineExceeded) // its share of a check is
			of.brokeOff(b.host, b.served, over || errors.Is(err, transport.ErrSilent))
			err = io.ErrUnexpectedEOF
		case len(of.behind(b.host)) > 0: // it sends what nobody makes sense of, such as chunks that are none
			of.leave(b.host)
			err = io.ErrUnexpectedEOF
		default:
			of.settles(b.host, class, fault.Own(b.req))
			err = clean // spans tell it
		}
	}
	return n, of.brokenOff(err)
}
