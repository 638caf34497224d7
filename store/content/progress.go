// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
)

// counter is a fetcher that tells how many bytes have come so far, also of those that it throws away: what is before the part that
// it was asked for, of hosts that know no parts.
type counter interface {
	Progress() (waiting, bytes int64)
}

// progress ends a context when no byte has come for some time.
type progress struct {
	from     counter // nil = what is read counts alone
	mu       sync.Mutex
	came     int64       // of what from has told
	last     time.Time   // when a byte came
	timer    *time.Timer // nil = it never ends
	patience time.Duration
	cancel   context.CancelCauseFunc
	ctx      context.Context //nolint:containedctx // whose end it judges
}

// watch returns a context that ends when no byte comes from the fetcher for as long as the
// patience lasts; 0 or less is without a bound. The caller stops it.
func watch(ctx context.Context, patience time.Duration, from transfer.Fetcher) (context.Context, *progress) {
	p := &progress{patience: patience}
	p.from, _ = from.(counter)
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	if patience > 0 {
		if p.from != nil {
			_, p.came = p.from.Progress()
		}
		p.last = time.Now()
		p.timer = time.AfterFunc(math.MaxInt64, p.look)
		p.timer.Reset(patience / looks)
	}
	return p.ctx, p
}

// looks is how often it looks in the time of the patience.
const looks = 10

// look ends the context where no bytes have come for that long.
func (p *progress) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.from != nil {
		if _, came := p.from.Progress(); came != p.came {
			p.came, p.last = came, time.Now()
		}
	}
	if time.Since(p.last) < p.patience {
		p.timer.Reset(p.patience / looks)
		return
	}
	p.cancel(&stalledError{p.patience})
}

// stop ends the context.
func (p *progress) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.cancel(nil)
}

// judge returns the error of a transfer, which is that of the stall where there
// was one.
func (p *progress) judge(err error) error {
	if stalled, ok := context.Cause(p.ctx).(*stalledError); ok { //nolint:errorlint // set above
		return fmt.Errorf("%w: %w", stalled, err)
	}
	return err
}

// reader lets every byte that is read count.
func (p *progress) reader(r io.Reader) io.Reader { return &progressReader{r, p} }

type progressReader struct {
	io.Reader
	progress *progress
}

func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 && r.progress.timer != nil {
		r.progress.mu.Lock()
		r.progress.last = time.Now()
		r.progress.mu.Unlock()
	}
	return n, err
}

// stalledError says that no byte came. To those who look for it, it is the end
// of a context.
type stalledError struct{ patience time.Duration }

func (e *stalledError) Error() string { return fmt.Sprintf("no byte came for %s", e.patience) }
func (e *stalledError) Unwrap() error { return context.Canceled }
