// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"net/http"
	"path"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// call is what a request is made for. The context carries it through docker's
// resolver to the transport and the authorizer. At most one field is set;
// none when the request is not ours, which then is left as it is.
type call struct {
	check *check
	fetch *fetch
	token *tokenCall
}

type callKey struct{}

func withCall(ctx context.Context, c call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

func callOf(ctx context.Context) call {
	c, _ := ctx.Value(callKey{}).(call)
	return c
}

// of returns the check or the fetch that is served, and the host that it is
// about: a token is asked for on behalf of another call.
func (c call) of(h *host) (call, *host) {
	if c.token != nil {
		return c.token.run.call, c.token.run.host
	}
	return c, h
}

// tries is how often a request to h may be sent: more than once only where no
// other host can answer instead.
func (c call) tries(h *host) int {
	if c, h = c.of(h); c.check != nil && c.check.last || c.fetch != nil && h.last() {
		return maxTries
	}
	return 1
}

// hurries reports whether another host can answer when h does not.
func (c call) hurries(h *host) bool {
	c, h = c.of(h)
	return c.check != nil && !c.check.last || c.fetch != nil && !h.last()
}

// spare reports whether there is something else to use than h, which is in
// trouble of that class.
func (c call) spare(h *host, class failure.Class) bool {
	switch c, h = c.of(h); {
	case c.check != nil:
		return !c.check.last || c.check.local().fallsBack(class)
	case c.fetch != nil:
		return !c.fetch.insists.Load() && c.fetch.serving.Load() != h && h.replaceable()
	}
	return false
}

// skipped records, in a pull, that a host was passed over.
func (c call) skipped() {
	if c.fetch != nil {
		c.fetch.passedOver.Store(true)
	}
}

// affords reports whether there is time to wait that long for another try.
func (c call) affords(ctx context.Context, wait time.Duration) bool {
	deadline, bounded := ctx.Deadline()
	if c.token != nil {
		deadline, bounded = c.token.deadline()
	}
	if c, _ := c.of(nil); c.check == nil && wait > maxPullDelay {
		return false
	}
	return !bounded || wait < time.Until(deadline)
}

// fetch is the fetch of one digest in a pull.
type fetch struct {
	record   *record
	digest   digest.Digest
	document bool // small, and made to be answered at once

	serving    atomic.Pointer[host] // that answered last: what is under way is not moved
	passedOver atomic.Bool          // a host was not asked because it is in trouble
	insists    atomic.Bool          // nothing else is left: it is asked all the same
}

// again reports whether what failed is worth another try with the hosts that
// were passed over, once.
func (f *fetch) again() bool {
	return f.passedOver.Load() && f.insists.CompareAndSwap(false, true)
}

// failed records, in a pull, that h could not give the digest.
func (c call) failed(h *host, class failure.Class, err error, elapsed time.Duration) {
	if c.fetch != nil {
		c.fetch.record.failed(c.fetch.digest, h, class, err, elapsed)
	}
}

// interrupted records, in a pull, that the context ended while h was asked.
func (c call) interrupted(h *host, err error, elapsed time.Duration) {
	if c.fetch != nil {
		c.fetch.record.interrupted(c.fetch.digest, h, err, elapsed)
	}
}

// errNoBlob is why a check asks for no blob.
var errNoBlob = &fault{class: failure.NotFound, err: errors.New("a check asks for manifests only")}

// withoutBlobs refuses the request for a blob that docker's resolver sends when
// it got no manifest by digest. It is for registries older than manifests; a
// mirror that answered it would hand out an image nobody can run. An error, and
// not an answer with status 404, which would hide why there was no manifest.
func (c call) withoutBlobs(req *http.Request) error {
	if c.check == nil || req.Response != nil || path.Base(path.Dir(req.URL.Path)) != "blobs" {
		return nil
	}
	return errNoBlob
}
