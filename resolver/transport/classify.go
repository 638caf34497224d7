// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// classify turns missing answers, and those that make no sense or may pass by
// themselves, into faults with a class and a clean text.
type classify struct {
	next     http.RoundTripper
	redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (c *classify) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	var wire wire
	resp, err := c.next.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, wire.trace())))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err() // the caller has left, or the host used its time up
		}
		return nil, &fault.Fault{
			Class:     fault.TransportClass(err, wire.silent()),
			Err:       c.redactor.Failed(req, err),
			Temporary: fault.BrokenOff(err) || wire.silent() && !fault.TimedOut(err),
		}
	}
	resp.Request = fault.Asked(req, resp)
	if resp.StatusCode >= 400 {
		resp.Body = readError(resp.Body, errorTime(req.Context(), resp.StatusCode))
	}
	if f := c.judge(req, resp); f != nil {
		_ = resp.Body.Close()
		return nil, f
	}
	return resp, nil
}

// asked are the spellings of what a request to a configured host was made for, with the query by which mirrors are asked:
// another one may sign, without that anybody knows it.
func asked(req *http.Request) []string {
	first := *fault.First(req).URL
	if !redact.IsMirrorQuery(first.RawQuery) {
		first.RawQuery = ""
	}
	return spellings(&first)
}

// spellings are host, path and query of a URL as it is, and as it is read.
func spellings(u *url.URL) (all []string) {
	queries := []string{u.RawQuery}
	if plain, err := url.QueryUnescape(u.RawQuery); err == nil {
		queries = append(queries, plain)
	}
	for _, query := range slices.Compact(queries) {
		for _, path := range slices.Compact([]string{u.Path, u.EscapedPath()}) {
			all = append(all, strings.TrimSuffix(u.Host+path+"?"+query, "?"))
		}
	}
	return all
}

// judge returns the fault that an answer is, nil if it is none.
func (c *classify) judge(req *http.Request, resp *http.Response) *fault.Fault {
	text := fault.StatusText(resp.StatusCode)
	switch class := fault.StatusClass(resp.StatusCode); {
	case class == failure.Unavailable, class == failure.RateLimited:
		after := retryAfter(resp.Header, time.Now())
		return &fault.Fault{
			Class:      class,
			Err:        c.redactor.Request(req, errors.New(redact.WithReason(text, c.redactor.ReadReason(resp)))),
			Status:     resp.StatusCode,
			RetryAfter: after,
			Temporary:  true,
		}
	case senseless(resp, c.redactor, asked(req)):
		return c.nonsense(req, resp)
	}
	return nil
}

// nonsense is the fault that an answer with that status is. Docker's resolver takes some of these for
// successes.
func (c *classify) nonsense(req *http.Request, resp *http.Response) *fault.Fault {
	return &fault.Fault{
		Class:  failure.Invalid,
		Err:    c.redactor.Request(req, errors.New(fault.StatusText(resp.StatusCode)+" makes no sense")),
		Status: resp.StatusCode,
	}
}

// senseless reports whether an answer is none that was asked for: it leads elsewhere and is not followed, or
// switches to a protocol that nobody has offered. Of that, net/http gives the connection away, which no context ends.
func senseless(resp *http.Response, redactor *redact.Redactor, asked []string) bool {
	return resp.StatusCode < 200 || strays(resp, redactor, asked)
}

// strays reports whether an answer leads elsewhere, and is not followed. It has the redactor know the URL: net/http
// tells that where it follows no more.
func strays(resp *http.Response, redactor *redact.Redactor, asked []string) bool {
	if resp.StatusCode < 300 || resp.StatusCode > 399 {
		return false
	}
	before := redactor.Texts()
	if target, err := resp.Location(); err == nil {
		redactor.AddURL(target, asked...)
	}
	return !follows(resp, before, redactor.Texts())
}

// redirects reports whether net/http can follow an answer elsewhere. When the
// target is no URL, its error would quote it whole.
func redirects(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		_, err := url.Parse(resp.Header.Get("Location"))
		return err == nil && resp.Header.Get("Location") != ""
	}
	return false
}

// maxParted bounds a redirect of which something is left out, in bytes: it is searched for all
// secrets, which takes long where the host has chosen many of them.
const maxParted = 4 << 10

// follows reports whether an answer redirects, and nothing is left out of a text that has a secret:
// net/http leaves out some of a path with dots, and passwords in what it reports, and nobody would
// know the rest, also where the secret is there whole as well. All secrets count that are known once there is an
// answer, since hosts may hold that back until they were sent one. In the URL that was asked, what the answer's own
// URL is signed by is none: before has those without.
func follows(resp *http.Response, before, texts *redact.Texts) bool {
	if !redirects(resp) {
		return false
	}
	target, err := resp.Location()
	if err != nil || target.Host == "" { // net/http would follow to nobody, and errors tell the path
		return false
	}
	text, whole := resp.Header.Get("Location"), target.String()
	if cutsBase(before, resp.Request.URL.String(), text, whole) {
		return false
	}
	asWritten := strings.HasSuffix(whole, text)
	password, set := target.User.Password()
	switch {
	case asWritten && !set:
		return true
	case len(text) > maxParted:
		return false
	case !texts.Knows(text):
		return true
	case !asWritten: // but for the query, which net/url leaves as it is
		rest, fragment, _ := strings.Cut(text, "#")
		query := strings.IndexByte(rest, '?')
		return query > 0 && fragment == "" && !texts.Knows(rest[:query]) && !texts.Crosses(text, query)
	}
	end := len(target.Scheme) + len("://") + len(target.User.String())
	begin := end - len(url.UserPassword("", password).String()) + len(":")
	return !texts.Crosses(whole, begin) && !texts.Crosses(whole, end)
}

// cutsBase reports whether a relative redirect leaves out the end of a secret of the URL that was
// asked.
func cutsBase(texts *redact.Texts, asked, text, target string) bool {
	reference, err := url.Parse(text)
	if err != nil || reference.IsAbs() || reference.Host != "" {
		return false // nothing of that URL is taken but the scheme
	}
	if len(asked) > maxParted {
		return true
	}
	same := 0
	for same < min(len(asked), len(target)) && asked[same] == target[same] {
		same++
	}
	path := strings.IndexAny(asked+"?", "?#") // where it ends
	switch {
	case same == len(asked): // nothing is left out
		return false
	case reference.Path == "", same > path: // the path is kept, and nobody tells what is behind it
		same = path
	case same < len(target):
		same = strings.LastIndexByte(asked[:same], '/') + 1
	}
	return texts.Crosses(asked, same)
}

// retryAfter is how long an answer asks its client to wait: seconds or a date.
// 0 when it does not say, or says it in another way.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		if seconds > math.MaxInt64/uint64(time.Second) {
			return math.MaxInt64
		}
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}

// wire is how far a request came on its connection. The hooks may run on other
// goroutines, and after the request.
type wire struct {
	sent, answered atomic.Bool
}

func (w *wire) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		WroteHeaders:         func() { w.sent.Store(true) },
		GotFirstResponseByte: func() { w.answered.Store(true) },
	}
}

// silent reports whether the request was sent and not one byte came back.
func (w *wire) silent() bool { return w.sent.Load() && !w.answered.Load() }
