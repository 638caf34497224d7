// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// leadsInClear is a registry that wants a password, leads in clear to a host, the one that is asked where that is "",
// and takes note of whether anybody has the password there.
func leadsInClear(to string, shown *atomic.Bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name, secret, _ := r.BasicAuth()
		knows := name == username && secret == password
		switch {
		case isProbe(r):
		case r.URL.Query().Get("at") == "" && knows:
			host := r.Host
			if to != "" {
				host = to
			}
			w.Header().Set("Location", "http://"+host+r.URL.Path+"?at=home")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case knows:
			shown.Store(true)
			serveManifest(w, r)
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
}

// inClearAt are the ways to ask a host for which containerd goes from HTTPS to HTTP, or begins there.
func inClearAt(t *testing.T, host string) map[string]func() (Options, Query) {
	t.Helper()
	by := func(reference, hostsTOML string) func() (Options, Query) {
		return func() (o Options, q Query) {
			if hostsTOML != "" {
				o.HostDirs = []string{hostsDir(t, hostsTOML)}
			}
			return o, Query{Reference: reference, Credentials: as(username, password)}
		}
	}
	server := "server = \"http://" + host + "\"\n"
	return map[string]func() (Options, Query){
		"on loopback":                   by(host+"/team/app:v1", ""),
		"http://":                       by(imageRef, server),
		"http:// with a setting of TLS": by(imageRef, server+"skip_verify = true\n"),
	}
}

// A registry without TLS leads to itself by its whole URL.
func TestRegistryInClearThatLeadsToItself(t *testing.T) {
	var shown atomic.Bool
	registry, log := serve(t, leadsInClear("", &shown))
	for what, with := range inClearAt(t, serverHost(registry)) {
		t.Run(what, func(t *testing.T) {
			o, q := with()
			found, err := open(t, o, q).Resolve(t.Context(), plenty)
			if err != nil || found.Descriptor.Digest != manifestDigest {
				t.Errorf("got %v, %v; requests %v", found.Descriptor.Digest, err, log.list())
			}
		})
	}
}

// A registry is asked by TLS where that may be left, and leads to itself in clear: whoever is on the way there answers.
func TestRegistryWithTLSThatLeadsToItselfInClear(t *testing.T) {
	var shown atomic.Bool
	registry := httptest.NewUnstartedServer(leadsInClear("", &shown))
	registry.StartTLS()
	t.Cleanup(registry.Close)
	front := eitherWay(t, registry)
	for what, with := range inClearAt(t, front) {
		if what == "http://" {
			continue
		}
		t.Run(what, func(t *testing.T) {
			o, q := with()
			_, err := open(t, o, q).Resolve(t.Context(), plenty)
			if t.Log(err); err == nil || shown.Swap(false) {
				t.Error("the password is sent in clear")
			}
		})
	}
}

// eitherWay starts a server at one address with TLS and without, with the handler of one that has TLS.
func eitherWay(t *testing.T, registry *httptest.Server) (host string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: registry.Config.Handler, ReadHeaderTimeout: plenty}
	t.Cleanup(func() { _ = s.Close() })
	go func() { _ = s.Serve(&maybeTLS{Listener: l, config: registry.TLS.Clone()}) }()
	return l.Addr().String()
}

// maybeTLS accepts connections with TLS, and without where they do not begin so.
type maybeTLS struct {
	net.Listener
	config *tls.Config
}

func (l *maybeTLS) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	read := bufio.NewReader(c)
	begun := &begunConn{Conn: c, read: read}
	if first, err := read.Peek(1); err == nil && first[0] == 0x16 { // a handshake
		return tls.Server(begun, l.config), nil
	}
	return begun, nil
}

type begunConn struct {
	net.Conn
	read *bufio.Reader
}

func (c *begunConn) Read(p []byte) (int, error) { return c.read.Read(p) }

// A registry in clear leads to another in clear, for which the node has a password. Where containerd would have had TLS
// for the first one, the other does not get it.
func TestRegistryInClearThatLeadsElsewhere(t *testing.T) {
	var shown, ignored atomic.Bool
	other, _ := serve(t, leadsInClear("", &shown))
	registry, _ := serve(t, leadsInClear(serverHost(other), &ignored))
	for what, with := range inClearAt(t, serverHost(registry)) {
		if what == "http://" {
			continue
		}
		t.Run(what, func(t *testing.T) {
			o, q := with()
			_, err := open(t, o, q).Resolve(t.Context(), plenty)
			if t.Log(err); err == nil || shown.Swap(false) {
				t.Error("the password is sent on in clear")
			}
		})
	}
}
