// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"net/http"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/auth"
	"github.com/pullwarden/pullwarden/resolver/fault"
)

// way is one whole resolution of the reference by docker's resolver in a check of a host,
// with its own challenges and redirects.
type way struct {
	session    *session
	host       *host
	examiner   *examiner
	authorizer *auth.Authorizer // nil = the host takes no credentials
	asked      remotes.Resolver
	began      time.Time
}

// newWay returns a way by HEAD. Watch puts a RoundTripper before those that ask the host;
// nil = none.
func (s *session) newWay(h *host, watch func(next http.RoundTripper) http.RoundTripper) *way {
	w := &way{session: s, host: h, began: time.Now()}
	w.examiner = &examiner{host: h, known: s.query.Known, wanted: s.spec.Digest(), redactor: h.chain.Redactor}
	var authorizer docker.Authorizer
	if h.authorizer != nil {
		w.authorizer = h.authorizer.Way()
		authorizer = w.authorizer
	}
	rt := h.chain.Registry(func(next http.RoundTripper) http.RoundTripper {
		if w.authorizer != nil {
			next = w.authorizer.Doubting(next) // refusals of what it has presumed go no further
		}
		if watch != nil {
			next = watch(next)
		}
		return w.examiner.before(next)
	})
	w.asked = dockerResolver(s.headers, h.registryHost(rt, authorizer))
	return w
}

// finish tells the authorizer, where there is one, what has become of a check in which this
// way counts.
func (w *way) finish(answered bool) {
	if w.authorizer != nil {
		w.authorizer.Finish(answered)
	}
}

// outcome is what has come of a way.
type outcome struct {
	found Resolution
	err   error // its text is clean; nil = there is an answer
	late  bool  // there was no time for an answer, or it was given up
}

// resolve asks the host.
func (w *way) resolve(ctx context.Context) outcome {
	s, h, e := w.session, w.host, w.examiner
	_, desc, err := w.asked.Resolve(ctx, s.spec.String())
	if err == nil {
		err = e.descriptor(desc)
	}
	if err == nil && desc.Digest != s.query.Known {
		s.keep(h, desc, e.data)
	}
	delivered := e.delivered(nil, desc.Digest)
	if nested := s.query.Nested; err == nil && s.query.ReadManifest && nested.Manifest != "" && nested.Index == desc.Digest {
		e.wanted, e.promised, e.elsewhere, e.forbade = nested.Manifest, "", false, false
		_, _, err = w.asked.Resolve(ctx, s.spec.Locator+"@"+nested.Manifest.String())
		delivered = e.delivered(delivered, nested.Manifest)
	}
	if err != nil {
		return w.failed(ctx, err)
	}
	byNode := s.identifies(h)
	return outcome{found: Resolution{
		Descriptor: desc, Anonymous: !e.shown && !byNode, ByNode: byNode, delivered: delivered, shown: e.seen,
	}}
}

// failed judges why there is no answer.
func (w *way) failed(ctx context.Context, err error) outcome {
	refused := fault.AnswerClass(err).Refuses() // it was heard before the host was given up
	if f, ok := fault.As(context.Cause(ctx)); ok && !refused {
		err = f
	}
	_, judged := fault.As(err)
	late := !judged && fault.Interrupted(err)
	own := w.examiner.owns(err)
	redactor := w.session.redactor
	err = redactor.Wrap(describe(ctx, err, w.examiner.status, redactor, time.Since(w.began)), err)
	return outcome{err: &checkError{error: err, own: own}, late: late}
}
