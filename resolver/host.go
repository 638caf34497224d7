// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/auth"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/redact"
	"github.com/pullwarden/pullwarden/resolver/transport"
)

// host is one host of a session. Its connections and tokens are shared with
// others; the text of its errors has no secret that its session knows.
type host struct {
	hosts.Host
	chain      transport.Config
	health     *health.View     // of the session
	authorizer *auth.Authorizer // nil = the host takes no credentials
	patience   time.Duration    // see purpose.Purpose
	authority  bool             // it speaks for the origin: see Query.Authority
	spelled    string           // see hosts.Set.Spelled
}

// newHosts makes the hosts of a session.
func (r *Resolver) newHosts(set *hosts.Set, repository, asker string, creds Credentials, redactor *redact.Redactor) []*host {
	redactor.AddHeaders(r.options.Headers)
	var named []health.Key
	for _, h := range set.Hosts() {
		if h.Configured {
			named = append(named, h.Key())
		}
	}
	redactors := map[string]*redact.Redactor{} // by Host of their hosts' keys
	view := r.health.View(func() (health.Scope, bool) {
		return r.tokens.Scope(repository, asker, creds, set.Addresses())
	}, named...).Telling(tellsHost(redactors)).Until(set.Replaced)
	list := make([]*host, len(set.Hosts()))
	for i, configured := range set.Hosts() {
		of := redactorOf(configured, list[:i], redactor)
		redactors[configured.Key().Host] = of
		h := &host{Host: configured, health: view, spelled: set.Spelled(), chain: transport.Config{
			Host: configured.Host, Configured: configured.Configured, Key: configured.Key(), InClear: configured.InClear, Base: configured.Base,
			Redactor: of, Observe: r.options.Observe, Warned: new(atomic.Int32),
			Probe: configured.Probe, Root: configured.Root(), API: configured.API(), Headers: []http.Header{r.options.Headers, configured.Header},
		}}
		redactor.AddHeaders(configured.Header)
		if configured.Authorizer != nil {
			h.authorizer = auth.New(auth.Options{
				Cache:       r.tokens,
				Scope:       auth.Scope{Configuration: set, Host: i, Repository: repository},
				Host:        configured.Host,
				Credentials: creds,
				Redactor:    of,
				Headers:     []http.Header{r.options.Headers, configured.Header},
				Client:      h.tokenClient,

				ClientElsewhere: h.tokenClientElsewhere,
			})
		}
		list[i] = h
	}
	return list
}

// redactorOf is the Redactor of a host in a session. Another entry of the same host's, such as a mirror at a path
// of the registry, has the same: it may say by the one what it was sent by the other.
func redactorOf(configured hosts.Host, before []*host, session *redact.Redactor) *redact.Redactor {
	for _, h := range before {
		if fault.SameHost(h.Host.Host, configured.Host) {
			return h.chain.Redactor
		}
	}
	return session.ForHost()
}

// tellsHost reports whether others may hear of a host that one of a session has named, by its own Redactor: else a mirror had
// the registry's token server never probed, by a token that is a part of its URL.
func tellsHost(redactors map[string]*redact.Redactor) func(led string, u *url.URL) bool {
	return func(led string, u *url.URL) bool {
		of := redactors[led]
		return of != nil && of.Texts().TellsHost(u)
	}
}

// tokenClient returns containerd's client for the host, to ask token servers.
func (h *host) tokenClient(redactor *redact.Redactor) *http.Client {
	chain := h.chain
	chain.Redactor = redactor
	return h.client(chain.Token())
}

// tokenClientElsewhere is tokenClient for whom the host redirects to: without the client certificates of the host, and
// the health of the host and of its token server is neither changed by it nor asked for. Nobody is probed.
func (h *host) tokenClientElsewhere(redactor *redact.Redactor) *http.Client {
	chain := h.chain
	chain.Redactor, chain.Base, chain.Probe, chain.Key.Led = redactor, h.Elsewhere(), nil, true
	return h.client(chain.Token())
}

// client returns containerd's client for the host with another transport.
func (h *host) client(rt http.RoundTripper) *http.Client {
	client := *h.Client
	client.Transport = rt
	return &client
}

// registryHost is the host as docker's resolver asks it, with all headers that the node shows it.
func (h *host) registryHost(rt http.RoundTripper, authorizer docker.Authorizer) docker.RegistryHost {
	asked := h.RegistryHost
	asked.Client, asked.Authorizer, asked.Header = h.client(rt), authorizer, http.Header{}
	for _, headers := range h.chain.Headers {
		for name, values := range headers {
			asked.Header[name] = append(asked.Header[name], values...)
		}
	}
	return asked
}

// trackedAuthorizer is the authorizer for a Source, nil for none.
func (h *host) trackedAuthorizer() docker.Authorizer {
	if h.authorizer == nil {
		return nil
	}
	return &trackedAuthorizer{next: h.authorizer, host: h}
}

// sees reports whether the host is shown the session's credentials by a request, or a token for them.
func (h *host) sees(req *http.Request) bool {
	return h.authorizer != nil && h.authorizer.OfCaller(req)
}

// allowed returns the hosts that may be asked, and the names of the others.
func allowed(list []*host, allow func(host string) bool) (kept []*host, leftOut []string) {
	for _, h := range list {
		if allow == nil || allow(h.Name()) {
			kept = append(kept, h)
		} else if !slices.Contains(leftOut, h.Name()) {
			leftOut = append(leftOut, h.Name())
		}
	}
	return kept, leftOut
}

func (h *host) attempt(class failure.Class, err error, elapsed time.Duration) Attempt {
	return Attempt{Host: h.By(), Origin: h.Origin, Spelled: h.spelled, Class: class, Err: err, Elapsed: elapsed, by: h}
}

// answer is an attempt that ended with an answer. own tells that the host gave it, or
// its token server, and not another host behind a redirect.
func (h *host) answer(class failure.Class, err error, elapsed time.Duration, own bool) Attempt {
	a := h.attempt(class, err, elapsed)
	a.Refused = own && class.Refuses()
	a.Authority = own && h.authority && (class.Refuses() || class == failure.NotFound)
	return a
}

// dockerResolver returns docker's resolver for some hosts, which have their headers themselves:
// those of the resolver would be shown to the hosts of urls, too. It gets Accept alone, which it
// sends in the place of its own.
func dockerResolver(headers http.Header, list ...docker.RegistryHost) remotes.Resolver {
	headers = maps.Clone(headers)
	maps.DeleteFunc(headers, func(name string, _ []string) bool { return name != "Accept" })
	return docker.NewResolver(docker.ResolverOptions{
		Hosts:   func(string) ([]docker.RegistryHost, error) { return list, nil },
		Headers: headers,
	})
}
