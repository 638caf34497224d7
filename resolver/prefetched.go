// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// prefetched is content that has been asked for.
type prefetched struct {
	desc   ocispec.Descriptor
	end    func()
	cancel context.CancelCauseFunc
	log    *fetchLog // of its own until containerd fetches it: nobody has wanted it before
	taken  bool      // guarded by the lock of the prefetcher

	of   *fetch
	done chan struct{}     // closed when the rest is set
	rc   io.ReadSeekCloser // a document that is here, or a layer that has begun
	err  error
}

// load asks for the content: once, since who needs it asks again.
func (e *prefetched) load(ctx context.Context, f *fetcher) {
	e.rc, e.err = f.open(ctx, e.desc, e.of)
	switch rc := e.rc.(type) {
	case nil:
	case *verifyingReader:
		e.err = rc.load()
	default:
		begun := &begunReader{ReadSeekCloser: rc}
		e.rc, e.err = begun, begun.begin()
	}
	if e.rc != nil && e.err != nil {
		_ = e.rc.Close() // who asks again needs its place among the downloads
	}
}

// firstRead is how much of a layer is read before somebody wants it, in bytes: enough to
// have it sent. The connection has the rest.
const firstRead = 32 << 10

// begunReader reads a layer of which the beginning is here.
type begunReader struct {
	io.ReadSeekCloser
	ahead []byte // not handed out yet
	err   error  // what came behind it
	used  bool
}

// begin waits for the first bytes.
func (r *begunReader) begin() error {
	r.ahead = make([]byte, firstRead)
	n, err := r.ReadSeekCloser.Read(r.ahead)
	r.ahead = r.ahead[:n]
	if n == 0 {
		return err
	}
	r.err = err
	return nil
}

// Read implements io.Reader.
func (r *begunReader) Read(p []byte) (n int, err error) {
	r.used = true
	if len(r.ahead) > 0 {
		n = copy(p, r.ahead)
		r.ahead = r.ahead[n:]
		return n, nil
	}
	if err, r.err = r.err, nil; err != nil {
		return 0, err
	}
	return r.ReadSeekCloser.Read(p)
}

// Seek implements io.Seeker. To the start of what nobody has read it does nothing.
func (r *begunReader) Seek(offset int64, whence int) (int64, error) {
	if !r.used && whence == io.SeekStart && offset == 0 {
		return 0, nil
	}
	if whence == io.SeekCurrent {
		offset -= int64(len(r.ahead))
	}
	r.ahead, r.err, r.used = nil, nil, true
	return r.ReadSeekCloser.Seek(offset, whence)
}

// joinedReader reads what is prefetched, or asks normally where that has failed.
type joinedReader struct {
	ctx      context.Context //nolint:containedctx // of the fetch: requests are made when it is read
	fetcher  *fetcher
	from     *prefetched
	underWay bool        // it was when it was joined
	unlink   func() bool // ends the link of both contexts

	opened bool
	rc     io.ReadSeekCloser
	err    error
	offset int64 // in rc
	again  bool  // what broke off was asked for again
}

// join returns a reader of what is prefetched. The context ends that, too.
func (f *fetcher) join(ctx context.Context, e *prefetched) *joinedReader {
	r := &joinedReader{ctx: ctx, fetcher: f, from: e}
	select {
	case <-e.done:
	default:
		r.underWay = true
	}
	f.downloads.wanted(e.of)
	f.log.progress.take(e.log.progress)
	r.unlink = context.AfterFunc(ctx, func() { e.cancel(context.Cause(ctx)) })
	return r
}

// open waits for what is prefetched. A request that has got no answer in its time since it was
// joined is not sent again: it was as good as the own one.
func (r *joinedReader) open() (io.ReadSeekCloser, error) {
	if r.opened {
		return r.rc, r.err
	}
	r.opened = true
	e := r.from
	<-e.done
	if e.err == nil || r.ctx.Err() != nil || r.underWay && e.timedOut() {
		r.fetcher.log.adopt(e.desc.Digest, e.log)
		e.of.log, e.of.once = r.fetcher.log, false // the rest of a layer is somebody's need
		r.rc, r.err = e.rc, e.err
	} else {
		r.fetcher.log.adoptRefusals(e.desc.Digest, e.log)
		r.rc, r.err = r.fetcher.open(r.ctx, e.desc, &fetch{log: r.fetcher.log})
	}
	return r.rc, r.err
}

// timedOut reports whether the last host that was asked has kept the request waiting.
func (e *prefetched) timedOut() bool {
	failures := e.log.failures(e.desc.Digest)
	return len(failures) > 0 && fault.TimedOut(failures[len(failures)-1].Err)
}

// Read implements io.Reader.
func (r *joinedReader) Read(p []byte) (int, error) {
	if _, err := r.open(); err != nil {
		return 0, err
	}
	n, err := r.rc.Read(p)
	r.offset += int64(n)
	if err == nil || err == io.EOF || !r.reopen() { //nolint:errorlint // one that is wrapped is a failure
		return n, err
	}
	if n > 0 {
		return n, nil
	}
	return r.Read(p)
}

// reopen asks normally, once, for the rest of what is prefetched and has broken off: it may
// have waited for long to be taken, and hosts close connections from which nobody reads.
func (r *joinedReader) reopen() bool {
	if r.again || r.rc != r.from.rc || r.ctx.Err() != nil {
		return false
	}
	r.again = true
	rc, err := r.fetcher.open(r.ctx, r.from.desc, &fetch{log: r.fetcher.log})
	if err != nil {
		return false
	}
	if r.offset > 0 {
		if _, err := rc.Seek(r.offset, io.SeekStart); err != nil {
			_ = rc.Close()
			return false
		}
	}
	_ = r.rc.Close() // who asks again needs its place among the downloads
	r.rc = rc
	return true
}

// Seek implements io.Seeker.
func (r *joinedReader) Seek(offset int64, whence int) (int64, error) {
	rc, err := r.open()
	if err != nil {
		return 0, err
	}
	at, err := rc.Seek(offset, whence)
	if err == nil {
		r.offset = at
	}
	return at, err
}

// Close closes both.
func (r *joinedReader) Close() error {
	r.unlink()
	r.from.cancel(nil)
	<-r.from.done
	var err error
	if r.rc != nil {
		err = r.rc.Close()
	}
	if r.from.rc != nil && r.from.rc != r.rc {
		_ = r.from.rc.Close()
	}
	r.from.end()
	return err
}
