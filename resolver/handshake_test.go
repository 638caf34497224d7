// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// longHandshake is too long where another host can answer.
const longHandshake = 2500 * time.Millisecond

// lateTLS is a listener whose connections take so long for the first bytes that they read.
type lateTLS struct {
	net.Listener
	by time.Duration
}

func (l lateTLS) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lateConn{Conn: c, by: l.by}, nil
}

type lateConn struct {
	net.Conn
	by   time.Duration
	once sync.Once
}

func (c *lateConn) Read(p []byte) (int, error) {
	c.once.Do(func() { time.Sleep(c.by) })
	return c.Conn.Read(p)
}

// serveLate serves by TLS, the handshake of which takes so long.
func serveLate(t *testing.T, by time.Duration, handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Listener = lateTLS{server.Listener, by}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of those who give up
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// unverified is hosts.toml of a registry without mirrors behind the first, whose certificate is not verified.
func unverified(first, server string) string {
	return fmt.Sprintf("server = %q\n[host.%q]\n  skip_verify = true\n", server, first)
}

// A host has long for TLS where it is the only one that is asked, or the last, wherever it is in hosts.toml.
func TestHandshakeOfTheOnlyHostThatIsAsked(t *testing.T) {
	for name, query := range map[string]Query{
		"the others are not allowed":                         {},
		"the registry is down, and a mirror is in its place": {Order: OriginThenMirrors},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serveLate(t, longHandshake, serveManifest)
			if query.Order != OriginThenMirrors {
				query.Allow = onlyFrom(serverHost(server))
			}
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, unverified(server.URL, "https://127.0.0.1:1"))}})
			began := time.Now()
			if _, err := once(t.Context(), r, query, 20*time.Second); err != nil {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	}
}

// A mirror has 2 s for TLS, and for that alone.
func TestHandshakeWithAnotherHostBehindIt(t *testing.T) {
	for name, tc := range map[string]struct {
		handshake, answer time.Duration
		answers           bool // the mirror, and not the next host
	}{
		"a long handshake":               {longHandshake, 0, false},
		"a short one, and a late answer": {100 * time.Millisecond, longHandshake, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror := serveLate(t, tc.handshake, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(tc.answer)
				serveManifest(w, r)
			})
			registry, _ := serve(t, serveManifest)
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, unverified(mirror.URL, registry.URL))}})
			began := time.Now()
			got, err := once(t.Context(), r, Query{}, 20*time.Second)
			took := time.Since(began)
			if answers := got.Host == serverHost(mirror); err != nil || answers != tc.answers {
				t.Errorf("%s answered after %v: %v, %+v", got.Host, took, err, got.Attempts)
			}
			if !tc.answers && took < 2*time.Second {
				t.Errorf("the next host answered after %v already", took)
			}
		})
	}
}

// A registry is down, and a mirror that needs long for TLS, and closes each connection after its answer, gives the tag in
// its place. The pull has nobody else either: the mirror has long for TLS once the registry has turned out to be down.
func TestHandshakeOfTheOnlyHostThatHasContent(t *testing.T) {
	t.Parallel()
	up := resolvertest.New(t)
	if _, err := up.Push(t.Context(), "team/app:v1", resolvertest.Image(1, 1, 64<<10)); err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(up.URL())
	if err != nil {
		t.Fatal(err)
	}
	through := httputil.NewSingleHostReverseProxy(to)
	mirror := serveLate(t, longHandshake, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		through.ServeHTTP(w, r)
	})
	hostDirs := []string{hostsDir(t, unverified(mirror.URL, "http://127.0.0.1:1"))}
	p := newPuller(t, transferlocal.TransferConfig{MaxConcurrentDownloads: 3}, Options{HostDirs: hostDirs}, Query{Order: OriginThenMirrors})
	got, err := p.session.Resolve(t.Context(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.transfer(t.Context(), p.session.Source(got.Descriptor)); err != nil {
		t.Error(err)
	}
}

// wantsToken serves a manifest to those who have a token, and tells of each who has none; nil = nobody is told.
func wantsToken(tokens string, asked chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token"`, tokens))
			w.WriteHeader(http.StatusUnauthorized)
			if asked != nil {
				asked <- struct{}{}
			}
			return
		}
		serveManifest(w, r)
	}
}

func giveToken(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte(`{"access_token":"good","token":"good"}`))
}

// servedBy returns a registry, whose connections can be lost, that answers so.
func servedBy(t *testing.T, answer http.HandlerFunc) *resolvertest.Registry {
	t.Helper()
	r := resolvertest.New(t)
	r.Script(func(w http.ResponseWriter, req *http.Request, _ http.Handler) { answer(w, req) })
	return r
}

// A token server needs long for TLS. A check that has no other host to ask waits for that, also where one that has
// another behind it, and gives up before, has begun the request for their token.
func TestTheLastHostHasLongForTLSWhoeverBeganTheToken(t *testing.T) {
	t.Parallel()
	tokens := serveLate(t, longHandshake, giveToken)
	asked := make(chan struct{}, 100)
	registry, _ := serve(t, wantsToken(tokens.URL, asked))
	backup, _ := serve(t, serveManifest)
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, unverified(registry.URL, backup.URL))}})
	first := make(chan error, 1)
	go func() {
		got, err := once(t.Context(), r, Query{Credentials: alice}, 20*time.Second)
		if err == nil && got.Host != serverHost(backup) {
			err = fmt.Errorf("%s answered", got.Host)
		}
		first <- err
	}()
	<-asked
	time.Sleep(longHandshake / 4) // it asks for the token
	if _, err := once(t.Context(), r, Query{Credentials: alice, Allow: onlyFrom(serverHost(registry))}, 20*time.Second); err != nil {
		t.Error(err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}
