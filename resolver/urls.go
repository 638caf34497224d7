// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/resolver/redact"
	"github.com/pullwarden/pullwarden/resolver/transport"
)

const (
	// maxURLs bounds the urls of a descriptor that count. A manifest has room for a hundred
	// thousand, which would all be compared with each other, and be named.
	maxURLs = 16
	// maxURL bounds a url that is followed, in bytes: it is read in many ways, to find secrets.
	maxURL = 4 << 10
	// maxURLBytes bounds those of one descriptor together.
	maxURLBytes = 8 << 10
)

// followable returns those urls of a descriptor that containerd may follow, and the names of their hosts.
// Only layers have any: a manifest, an index or a config comes from a registry, since it says
// what the image is. A url that has a secret of the pull is not followed, since name servers,
// labels and the host itself would get that; nor is one that has a user, which net/http unescapes
// and makes a header of, nor one whose host nobody could name, nor one with a fragment, which is left out.
func followable(desc ocispec.Descriptor, secrets *redact.Redactor) (urls, names []string) {
	if !images.IsLayerType(desc.MediaType) {
		return nil, nil
	}
	left, known := maxURLBytes, secrets.Texts()
	for _, text := range desc.URLs[:min(len(desc.URLs), maxURLs)] {
		if len(text) > min(maxURL, left) {
			continue
		}
		left -= len(text)
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || !provenance.Names(u) || known.In(text) || !known.TellsHost(u) {
			continue
		}
		if strings.Contains(text+u.Path, "#") || cutsSecret(u, known) {
			continue
		}
		urls = append(urls, text)
		if name := provenance.HostOf(u); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return urls, names
}

// cutsSecret reports whether a secret goes on behind the path of a url, as containerd asks for it: it
// logs the query in another way, where nobody would know the rest.
func cutsSecret(u *url.URL, known *redact.Texts) bool {
	asked := u.Scheme + "://" + u.Host + u.Path + "?" + u.RawQuery
	return known.Crosses(asked, strings.IndexByte(asked, '?'))
}

// GuardURLs has content behind the urls of descriptors fetched as that of hosts is: not encoded,
// within the same bounds of headers and of connections, with no query in its spans, and no part of a
// secret in its errors.
// containerd follows urls by http.DefaultClient, and takes no other, so GuardURLs changes that;
// the requests of all others go the way that they went before. It is called before anything is
// pulled.
var GuardURLs = sync.OnceFunc(func() {
	http.DefaultClient.Transport = guardURLs(http.DefaultClient.Transport)
})

// urlTransport is the transport of a client that fetches share with others.
type urlTransport struct {
	before lazyTransport
	own    *http.Transport // of fetches
}

func guardURLs(before http.RoundTripper) *urlTransport {
	return &urlTransport{before: lazyTransport{before}, own: hosts.Bounded()}
}

// RoundTrip implements http.RoundTripper.
func (t *urlTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	of := fetchOf(req.Context())
	if of == nil {
		return t.before.RoundTrip(req)
	}
	secrets := of.log.documents()
	if req.Response == nil { // a redirect's is known by the answer that has it
		secrets.AddURL(req.URL, "")
	}
	of.log.heard.asksURL()
	clean := transport.Elsewhere{Next: transport.Unreferred{Next: transport.Unencoded{Next: t.own}}, Redactor: secrets}
	waits := of.log.progress
	wait := waits.waitFor(func() Attempt {
		return urlAttempt(req, failure.Unreachable, secrets.Request(req, ErrNoProgress), secrets)
	})
	resp, err := transport.QuietSpans{Next: clean, Redactor: secrets}.RoundTrip(req)
	if err != nil {
		f, judged := fault.As(err)
		if judged {
			of.urlFailed(req, f.Class, f.Err, wait.begun)
		}
		if judged || of.ctx.Err() == nil { // else the pull has ended, and not just a piece of a layer
			waits.ended(wait)
		}
		return nil, err
	}
	if err := of.ctx.Err(); err != nil { // an error may have stalled until then, which is no answer
		_ = resp.Body.Close()
		return nil, err
	}
	of.log.urlAnswered(of.digest)
	if resp.StatusCode > 299 {
		waits.ended(wait)
		return resp, nil
	}
	of.serving.Store(nil) // a host of the session may have begun
	resp.Body = &urlBody{
		ReadCloser: resp.Body, req: req, fetch: of, start: time.Now(), ended: func() { waits.ended(wait) },
	}
	return resp, nil
}

func (f *fetch) urlFailed(req *http.Request, class failure.Class, err error, start time.Time) {
	a := urlAttempt(req, class, err, f.log.documents())
	a.Elapsed = time.Since(start)
	f.log.urlFailed(f.digest, a)
}

// urlFailed takes note of the failure of a url's host: it is apart from those of the session's, even by its name.
func (l *fetchLog) urlFailed(d digest.Digest, a Attempt) {
	l.update(d, func(c *content) { c.urlFailed = []Attempt{a} })
}

// urlAnswered takes note that the host of a url has answered, whatever it said.
func (l *fetchLog) urlAnswered(d digest.Digest) {
	l.update(d, func(c *content) { c.urlFailed = nil })
}

// urlAttempt is a request of a url. It is an attempt of the host that the url says: no registry has
// failed.
func urlAttempt(req *http.Request, class failure.Class, err error, secrets *redact.Redactor) Attempt {
	host, first := redact.Untold, fault.First(req).URL
	if secrets.TellsHost(first) {
		host = provenance.HostOf(first)
	}
	return Attempt{Host: host, Class: class, Err: err}
}

// urlBody records that content came from where a url leads, and why it broke off.
type urlBody struct {
	io.ReadCloser
	req    *http.Request
	fetch  *fetch
	start  time.Time
	ended  func() // tells that nobody waits for the host any more
	served bool
}

func (b *urlBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && !b.served {
		b.served = true
		b.fetch.log.servedElsewhere(b.fetch.digest, b.servers())
	}
	if err == nil || b.fetch.ctx.Err() != nil {
		return n, err
	}
	b.ended()
	if err == io.EOF {
		return n, err
	}
	clean := b.fetch.log.documents().Failed(b.req, err)
	if b.req.Context().Err() == nil { // else a piece is given up
		b.fetch.urlFailed(b.req, fault.TransportClass(err, false), clean, b.start)
	}
	if err == io.ErrUnexpectedEOF { //nolint:errorlint // docker's does not look into it either
		b.fetch.begun.Store(true)
		return n, b.fetch.brokenOff(err)
	}
	return n, clean // spans tell it
}

// brokenOff is the error of a body as docker's reader is to have it. That would ask all urls of the content once more
// for the rest, by a context that grows each time, and with it the time that it takes: where there are any,
// the retryReader begins with a new one.
func (f *fetch) brokenOff(err error) error {
	if err == io.ErrUnexpectedEOF && f.hasURLs { //nolint:errorlint // docker's does not look into it either
		return fmt.Errorf("%w", err)
	}
	return err
}

// servers are the hosts that may have served the bytes: those of all urls, and the one to which one
// of them has led. That of an url may lead anybody anywhere.
func (b *urlBody) servers() []string {
	last := redact.Untold
	if u := b.req.URL; provenance.Names(u) && b.fetch.log.documents().TellsHost(u) {
		last = provenance.HostOf(u)
	}
	if b.req.Response == nil || slices.Contains(b.fetch.elsewhere, last) {
		return b.fetch.elsewhere
	}
	return slices.Concat(b.fetch.elsewhere, []string{last})
}

func (b *urlBody) Close() error {
	if b.fetch.ctx.Err() == nil {
		b.ended()
	}
	return b.ReadCloser.Close()
}

// CloseIdleConnections is what http.Client calls in its method of that name. Fetches leave none.
func (t *urlTransport) CloseIdleConnections() {
	if c, ok := t.before.now().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// lazyTransport is another one, or, for nil, http.DefaultTransport as that is at each
// request: so does http.Client.
type lazyTransport struct{ set http.RoundTripper }

func (t lazyTransport) now() http.RoundTripper {
	if t.set == nil {
		return http.DefaultTransport
	}
	return t.set
}

// RoundTrip implements http.RoundTripper.
func (t lazyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.now().RoundTrip(req)
}

// documents is the redactor by which documents are refused, and hosts that these name.
func (l *fetchLog) documents() *redact.Redactor { return cmp.Or(l.chosen, l.redactor) }
