// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// errorBodyTime bounds the reading of an error's body: a pull has no other bound for that.
const errorBodyTime = 2 * time.Second

// refusalTime bounds it for a refusal, which ends proofs: it is not lost because who waits for it
// leaves, or the host is given up, before its body has come.
const refusalTime = 250 * time.Millisecond

// errorTime is how long the body of an error with that status may take to come: most of the time
// that the request has left is for what its status means.
func errorTime(ctx context.Context, status int) time.Duration {
	wait := errorBodyTime
	if fault.StatusClass(status).Refuses() {
		wait = refusalTime
	}
	if left := purpose.Of(ctx).TimeLeft(ctx); left != 0 {
		wait = min(wait, max(left, 0)/4)
	}
	return wait
}

// readError reads the body of an answer that is an error, within bounds, and closes it. One that
// does not come in time, or is too long, is left out as a whole: it says nothing that is needed,
// and its beginning may end in the middle of a secret.
func readError(body io.ReadCloser, wait time.Duration) io.ReadCloser {
	if body == nil {
		return nil
	}
	timer := time.AfterFunc(wait, func() { _ = body.Close() })
	data, err := io.ReadAll(io.LimitReader(body, redact.MaxAnswer))
	if timer.Stop() {
		_ = body.Close()
	}
	if err != nil || len(data) == redact.MaxAnswer {
		data = nil
	}
	return io.NopCloser(bytes.NewReader(data))
}
