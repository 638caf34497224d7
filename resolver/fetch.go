// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// fetch is the fetch of one digest in a pull.
type fetch struct {
	ctx      context.Context //nolint:containedctx // of all its requests, which may have one each
	log      *fetchLog
	digest   digest.Digest
	document bool // small, and made to be answered at once
	blob     bool // a layer or a config: it comes from where layers do
	size     int64
	// elsewhere are the hosts of its urls, which are asked past all hosts of the
	// session.
	elsewhere []string
	once      bool // a request is not sent again: see purpose.Purpose
	// downloads bounds it; nil = containerd does.
	downloads *downloads
	hosts     []*host // of the source, in the order in which they are asked
	// spare says that it takes no place among the downloads, only room for small layers:
	// nobody wants it yet.
	spare atomic.Bool

	serving    atomic.Pointer[host] // that answered last: a fetch under way is not moved
	passedOver atomic.Bool          // a host was not asked, since hosts were tried anew
	forced     atomic.Bool          // nothing else is left: all are asked but those the pull has left
	everyone   atomic.Bool          // not even that: these are asked, too
	left       leftHosts            // by this fetch: each is asked again once everyone is
	moved      atomic.Bool          // the host that served was left
	begun      atomic.Bool          // an answer has begun since a failure
	hasURLs    bool                 // the content says itself where it is
	final      atomic.Bool          // the last host has said so: see settles
	useless    atomic.Pointer[host] // that has broken off last, before it gave anything
	dialed     leftHosts            // whose connection did not come in the time that it has first

	asked atomic.Pointer[asking] // nil = nobody is asked for the begin of content

	// avoid are hosts that are not to be asked while there is another; nil = none.
	avoid atomic.Pointer[avoided]
}

// asking is a host that is asked for the begin of content, and since when: a challenge, a token or a
// redirect is no begin.
type asking struct {
	host  *host
	since time.Time
	until time.Time // see purpose.Purpose
}

// behind returns the hosts that the fetch asks after one of its own. A part of a source has fewer than the session.
func (f *fetch) behind(h *host) []*host { return f.hosts[slices.Index(f.hosts, h)+1:] }

// next are the keys of those behind a host.
func (f *fetch) next(h *host) (keys []health.Key) {
	for _, other := range f.behind(h) {
		keys = append(keys, other.Key())
	}
	return keys
}

// asking returns how a host is asked for the begin of content.
func (f *fetch) asking(h *host) *asking {
	a := f.asked.Load()
	if a == nil || a.host != h {
		a = &asking{host: h, since: time.Now()}
		if end, ok := f.checkEnd(); ok {
			a.until = a.since.Add(f.share(h, end.Sub(a.since)))
		}
		f.asked.Store(a)
	}
	return a
}

// avoided are hosts that a fetch does not ask.
type avoided struct {
	is  func(*host) bool
	why error
	// then are the hosts that it does not ask once those are of no use that are not avoided;
	// nil = they stay the same.
	then *avoided
}

// again reports whether a fetch that failed is worth another try with hosts that were passed
// over. One that is silent has no bound then: those the pull has left come last.
func (f *fetch) again() bool {
	end, inCheck := f.checkEnd()
	if !f.passedOver.Swap(false) || inCheck && !time.Now().Before(end) {
		return false
	}
	if !f.forced.Load() {
		avoid := f.avoid.Load()
		if avoid != nil && avoid.then != nil && f.avoid.CompareAndSwap(avoid, avoid.then) {
			return true
		}
	}
	if f.forced.CompareAndSwap(false, true) {
		return true
	}
	if inCheck || !f.everyone.CompareAndSwap(false, true) { // in a check a host has one share
		return false
	}
	f.left.clear()
	return true
}

// gave takes note that content has come: from now on its failures are worth as many tries as from the start.
func (f *fetch) gave() {
	f.forced.Store(false)
	f.everyone.Store(false)
}

// restart takes note that the content is fetched from its start again, because
// what came had another digest. A host that served all of it is avoided. Where
// several did, or where an earlier attempt had left some, it is not known whose
// bytes are wrong: then the host that served the end is preferred to all others,
// since one that went away in the middle is the likelier one. Once that is of no use, those are
// asked that served nothing of it.
func (f *fetch) restart(resumed bool) {
	f.log.corrupt(f.digest, errOtherDigest)
	served := f.log.forgetSources(f.digest)
	f.serving.Store(nil)
	f.gave() // else nobody is avoided
	if len(served) == 0 {
		return
	}
	avoid := &avoided{is: func(h *host) bool { return slices.Contains(served, h) }, why: errOtherDigest}
	if resumed || len(served) > 1 {
		last := served[len(served)-1]
		avoid = &avoided{is: func(h *host) bool { return h != last }, why: errOtherDigest, then: avoid}
	}
	f.avoid.Store(avoid)
}

// ended takes note that a host has ended the content before its end, and reports
// whether the others are to be asked for the rest.
func (f *fetch) ended() bool {
	short := f.serving.Swap(nil)
	if short == nil || !f.left.add(short, errShort) {
		return false
	}
	f.log.failed(f.digest, short, failure.Invalid, errShort, 0)
	return true
}

// brokeOff takes note that a host has broken off content. One that is silent is left, and one that
// for the second time gives nothing of what was asked for, where others follow: it may have no more.
func (f *fetch) brokeOff(h *host, gave, silent bool) {
	if gave && !silent {
		f.useless.CompareAndSwap(h, nil)
		return
	}
	if again := f.useless.Swap(h) == h; silent || again && len(f.behind(h)) > 0 {
		f.leave(h)
	}
}

// late takes note of why a request that was made for p has failed. A host that does not answer in time
// is left, where others can give the content; a connection that does not come in the second that it
// has may be one lost packet.
func (f *fetch) late(h *host, p purpose.Purpose, err error) {
	if fault.DialTimedOut(err) && p.HasAlternative() && f.dialed.add(h, err) && !p.HasReadyAlternative() {
		f.passedOver.Store(true) // it has longer once the others were asked
	}
	if fault.TimedOut(err) && !fault.DialTimedOut(err) && p.HasReadyAlternative() {
		f.leave(h)
	}
}

// leave has the pull ask the others from now on. Bytes that have come count, as do those of a host
// that goes away.
func (f *fetch) leave(h *host) {
	f.log.left.add(h, errLeft)
	f.serving.CompareAndSwap(h, nil)
	if f.left.add(h, errLeft) {
		f.moved.Store(true)
	}
}

var (
	errOtherDigest = errors.New("it served content with another digest")
	errShort       = errors.New("it ended content before its end")
	errLeft        = errors.New("it did not begin, or go on with, content in time")
	errSaid        = errors.New("it was asked in this check")
)

// passesOver reports whether the host is not to be asked while there is another.
func (f *fetch) passesOver(h *host) bool { return f.avoids(h) != nil }

// avoids says why the host is not to be asked while there is another, nil if it is. One that the pull
// has left is asked again where all others are in trouble: it was late once, and they are known to be dead.
func (f *fetch) avoids(h *host) error {
	if avoid := f.avoid.Load(); !f.forced.Load() && avoid != nil && avoid.is(h) {
		return avoid.why
	}
	if why := f.left.why(h); why != nil {
		return why
	}
	if f.everyone.Load() {
		return nil
	}
	why := f.log.left.why(h)
	if why == nil {
		return nil
	}
	if others := (purpose.Purpose{Next: f.next(h), Health: h.health}); !others.CanMove() {
		return nil
	}
	if f.serving.CompareAndSwap(h, nil) { // another fetch has left it: see retryReader
		f.moved.Store(true)
	}
	return why
}

// purpose is what a request to a host is made for, as things are now.
func (f *fetch) purpose(h *host) purpose.Purpose {
	a, next := f.asking(h), f.next(h)
	return purpose.Purpose{
		Kind:     purpose.Fetch,
		Last:     len(next) == 0,
		Next:     next,
		Document: f.document,
		Size:     f.size,
		Patience: h.patience,
		Asking:   a.since,
		Until:    a.until,
		KeepHost: f.serving.Load() == h,
		Force:    f.forced.Load(),
		Patient:  f.everyone.Load(),
		Dialed:   f.dialed.why(h) != nil,
		Once:     f.once,
		Health:   h.health,
	}
}

// answer takes note of an answer with that class to a request, which may have been
// redirected.
func (f *fetch) answer(h *host, req *http.Request, class failure.Class, err error, elapsed time.Duration) {
	own := fault.Own(req)
	f.settles(h, class, own)
	f.said(h)
	f.log.answer(f.digest, h, class, err, elapsed, own)
}

// fault takes note of a failure that the authorizer has judged.
func (f *fetch) fault(h *host, failed *fault.Fault, elapsed time.Duration) {
	if failed.ShortCircuited {
		f.passOver(h, failed)
		return
	}
	f.settles(h, failed.Class, !failed.Elsewhere)
	f.said(h)
	f.log.answer(f.digest, h, failed.Class, failed.Err, elapsed, !failed.Elsewhere)
}

// passOver takes note that a host is not asked, or its token server, which is in trouble.
func (f *fetch) passOver(h *host, failed *fault.Fault) {
	f.passedOver.Store(true)
	f.log.passedOver(f.digest, h, failed.Class, failed.Err, 0)
}

// settles takes note of what the last host says for good, such as a refusal, or that it is asked too often.
// Where another host serves, that may have the rest. own tells that the host says it, and nobody to whom it leads.
func (f *fetch) settles(h *host, class failure.Class, own bool) {
	if own && !class.Silent() && len(f.behind(h)) == 0 && f.serving.Load() == h {
		f.final.Store(true)
	}
}

type fetchKey struct{}

func withFetch(ctx context.Context, f *fetch) context.Context {
	return context.WithValue(ctx, fetchKey{}, f)
}

// fetchOf returns the fetch that a request is a part of, nil for none.
func fetchOf(ctx context.Context) *fetch {
	f, _ := ctx.Value(fetchKey{}).(*fetch)
	return f
}
