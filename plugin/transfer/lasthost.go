// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/provenance"
)

// unnamed stands for a host that labels cannot name.
const unnamed = "***"

// lastHost is the one of the hosts that was asked last for some content.
type lastHost struct {
	hosts []hosts.Alias
	// pieces says that requests may be made side by side: nobody knows then on which connection one goes, nor
	// which of the hosts that were asked is answering.
	pieces bool

	mu    sync.Mutex
	tls   *tls.ConnectionState // of the connection that the next request goes on; nil: it has no TLS
	plain bool                 // a request may have had none
	last  *hosts.Alias         // nil: none of them yet
	all   []hosts.Alias        // that were asked
}

// trace returns the hooks that see the requests. net/http calls them from
// goroutines of its own: for each request, also on a connection that is there, the one of the
// connection before that of the header.
func (l *lastHost) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			var state *tls.ConnectionState
			if conn, ok := info.Conn.(*tls.Conn); ok {
				of := conn.ConnectionState()
				state = &of
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.plain = l.plain || state == nil
			l.tls = state
			if l.pieces && l.plain {
				l.tls = nil
			}
		},
		WroteHeaderField: func(key string, value []string) {
			if (key == "Host" || key == ":authority") && len(value) == 1 {
				l.asked(sentHost(value[0]))
			}
		},
	}
}

// asked notes a request with that host in its header. Where one of the hosts has that name, but is asked by
// the other scheme, another server may have answered, to which some host has sent the client: it is named
// as what it is.
func (l *lastHost) asked(sent string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent == "" { // net/http names no host that no header may have: its bytes are not of the one before alone
		l.set(hosts.Alias{Name: unnamed})
		return
	}
	scheme := schemeOf(l.tls, sent)
	var found *hosts.Alias
	for i := range l.hosts {
		switch h := &l.hosts[i]; {
		case sentHost(h.Host) != sent:
		case h.Scheme == "" || h.Scheme == scheme:
			found = h
		case found == nil:
			found = &hosts.Alias{Name: nameOf(&url.URL{Scheme: scheme, Host: sent})}
		}
	}
	if found != nil {
		l.set(*found)
	}
}

// set is to be called with the lock.
func (l *lastHost) set(h hosts.Alias) {
	l.last = &h
	if !slices.Contains(l.all, h) {
		l.all = append(l.all, h)
	}
}

// serving are the hosts that may have served the bytes that a host's answer has brought.
func (l *lastHost) serving(h hosts.Alias) []hosts.Alias {
	if !l.pieces {
		return []hosts.Alias{h}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(slices.DeleteFunc(slices.Clone(l.all), func(other hosts.Alias) bool { return other == h }), h)
}

// schemeOf tells by which scheme a host is asked on a connection. That of a plain request has TLS, too, where its
// proxy is asked by HTTPS; the other end has the name of the proxy then.
func schemeOf(state *tls.ConnectionState, host string) string {
	name := strings.TrimRight((&url.URL{Host: host}).Hostname(), ".")
	if net.ParseIP(name) != nil { // TLS names no addresses
		name = ""
	}
	if state == nil || state.ServerName != name {
		return "http"
	}
	return "https"
}

// nameOf returns the name of the host of a URL as labels have it.
func nameOf(u *url.URL) string {
	if !provenance.Names(u) {
		return unnamed
	}
	return provenance.HostOf(u)
}

// sentHost returns a host as net/http names it in a request: without an empty port, in punycode, and
// without the zone of an address. What it names already stays as it is.
func sentHost(host string) string {
	host = strings.TrimRight(host, ":")
	if ascii, err := httpguts.PunycodeHostPort(host); err == nil { // else nobody is asked
		host = ascii
	}
	end := strings.LastIndexByte(host, ']')
	if zone := strings.LastIndexByte(host[:max(end, 0)], '%'); zone > 0 && host[0] == '[' {
		host = host[:zone] + host[end:]
	}
	return host
}

func (l *lastHost) get() *hosts.Alias {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}
