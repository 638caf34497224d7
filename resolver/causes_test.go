// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// with answers as a registry that has the image, but for one header.
func with(header, value string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", ocispec.MediaTypeImageManifest)
		h.Set(digestHeader, manifestDigest.String())
		h.Set("Content-Length", fmt.Sprint(len(manifest)))
		if h.Set(header, value); value == "" {
			h[http.CanonicalHeaderKey(header)] = nil
		}
		if r.Method == http.MethodGet {
			_, _ = w.Write(manifest)
		}
	}
}

// raw answers with bytes, and hangs up.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, answer)
		_ = conn.Close()
	}
}

// reset ends the connection with a TCP reset.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// onGET refuses HEAD, and answers GET.
func onGET(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		handler(w, r)
	}
}

// headThen answers HEAD with a type and one header more, without a length.
func headThen(header, value string, get http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			get(w, r)
			return
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set(header, value)
	}
}

// causesOfARegistry are its answers, the class of each, and a part of the error.
var causesOfARegistry = map[string]struct {
	handler http.HandlerFunc
	class   failure.Class
	says    string // part of the error
}{
	"404":                {answerStatus(404), failure.NotFound, "404 Not Found"},
	"410":                {answerStatus(410), failure.NotFound, "410 Gone"},
	"401":                {answerStatus(401), failure.Unauthorized, "401 Unauthorized"},
	"403":                {answerStatus(403), failure.Forbidden, "403 Forbidden: SCRIPTED: status 403 on purpose"},
	"429":                {answerStatus(429), failure.RateLimited, "429 Too Many Requests (3 tries)"},
	"500":                {answerStatus(500), failure.Unavailable, "500 Internal Server Error (3 tries)"},
	"502":                {answerStatus(502), failure.Unavailable, "502"},
	"503":                {answerStatus(503), failure.Unavailable, "503"},
	"504":                {answerStatus(504), failure.Unavailable, "504"},
	"599":                {answerStatus(599), failure.Unavailable, "599"},
	"408":                {answerStatus(408), failure.Unavailable, "408"},
	"425":                {answerStatus(425), failure.Unavailable, "425"},
	"400":                {answerStatus(400), failure.Invalid, "400"},
	"405":                {answerStatus(405), failure.Invalid, "405"},
	"406":                {answerStatus(406), failure.Invalid, "406"},
	"407":                {answerStatus(407), failure.Invalid, "407"},
	"418":                {answerStatus(418), failure.Invalid, "418"},
	"300":                {answerStatus(300), failure.Invalid, "300"},
	"304":                {answerStatus(304), failure.Invalid, "304"},
	"204":                {answerStatus(204), failure.Invalid, "an empty manifest"},
	"302 without target": {answerStatus(302), failure.Invalid, "302"},
	"302 without end": {func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path, http.StatusFound)
	}, failure.Invalid, "redirects"},
	"302 to another scheme": {func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "ftp://files.test/manifest", http.StatusFound)
	}, failure.Invalid, "unsupported protocol scheme"},
	"302 to a page": {func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/login" {
			http.Redirect(w, r, "/login?secret=verysecret", http.StatusFound)
			return
		}
		page(w, r)
	}, failure.Invalid, "a web page"},

	"hangs up":            {hangUp, failure.Unreachable, "EOF (3 tries)"},
	"reset":               {reset, failure.Unreachable, "connection reset by peer (3 tries)"},
	"half a header":       {raw("HTTP/1.1 200 OK\r\n"), failure.Unreachable, "unexpected EOF (3 tries)"},
	"not HTTP":            {raw("SSH-2.0-OpenSSH_9.6\r\n"), failure.Invalid, "malformed HTTP"},
	"reset in a manifest": {onGET(raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")), failure.Unreachable, "unexpected EOF (3 tries)"},

	"page":                   {page, failure.Invalid, "a web page (text/html)"},
	"page with a digest":     {with("Content-Type", "text/html"), failure.Invalid, "a web page"},
	"page on GET":            {onGET(page), failure.Invalid, "a web page"},
	"XHTML":                  {with("Content-Type", "application/xhtml+xml"), failure.Invalid, "a web page"},
	"JSON without a type":    {with("Content-Type", "application/json"), failure.Invalid, `content type "application/json": neither a manifest nor an index`},
	"plain text":             {with("Content-Type", "text/plain"), failure.Invalid, "content type"},
	"octets":                 {with("Content-Type", "application/octet-stream"), failure.Invalid, "content type"},
	"schema 1":               {with("Content-Type", "application/vnd.docker.distribution.manifest.v1+prettyjws"), failure.Invalid, "content type"},
	"JSON on GET":            {onGET(with("Content-Type", "application/json")), failure.Invalid, "content type"},
	"digest is none":         {with(digestHeader, "latest"), failure.Invalid, `"latest"`},
	"digest of unknown kind": {with(digestHeader, "md5:d41d8cd98f00b204e9800998ecf8427e"), failure.Invalid, "md5"},
	"digest is cut":          {with(digestHeader, "sha256:abc"), failure.Invalid, "sha256:abc"},
	"digest on GET is wrong": {onGET(with(digestHeader, otherDigest.String())), failure.Invalid, "instead of the promised " + otherDigest.String()},
	"digest only on HEAD is wrong": {headThen(digestHeader, otherDigest.String(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		_, _ = w.Write(manifest)
	}), failure.Invalid, "instead of the promised " + otherDigest.String()},
	"300 on GET": {headThen("X", "y", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.WriteHeader(http.StatusMultipleChoices)
		_, _ = w.Write(manifest)
	}), failure.Invalid, "300"},
	"101": {raw("HTTP/1.1 101 Switching Protocols\r\nContent-Type: " + ocispec.MediaTypeImageManifest + "\r\n\r\n"), failure.Invalid, "101"},
	"302 to no URL": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://u:very secret@host/")
		w.WriteHeader(http.StatusFound)
	}, failure.Invalid, "302"},
	"manifest too large": {with("Content-Length", fmt.Sprint(docker.MaxManifestSize+1)), failure.Invalid, "a manifest of"},
	"manifest too large on GET": {onGET(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		_, _ = w.Write(make([]byte, docker.MaxManifestSize+1))
	}), failure.Invalid, "a manifest of more than"},
}

// Each cause has its class.
func TestCausesOfARegistry(t *testing.T) {
	for name, test := range causesOfARegistry {
		t.Run(name, func(t *testing.T) {
			server, _ := serve(t, test.handler)
			_, err := resolve(t, Query{}, server.URL)
			e := wantClass(t, err, test.class)
			for _, part := range []string{test.says, imageRef, serverHost(server), string(test.class)} {
				if !strings.Contains(e.Error(), part) {
					t.Errorf("%q does not say %q", e, part)
				}
			}
			if strings.Contains(strings.ReplaceAll(e.Error(), " ", ""), "verysecret") {
				t.Errorf("%q repeats a URL's query", e)
			}
			if len(e.Attempts) != 1 || !e.Attempts[0].Origin || e.Attempts[0].Host != serverHost(server) {
				t.Errorf("got attempts %+v", e.Attempts)
			}
		})
	}
}

// muteAddress is an address at which connections are accepted, and nothing else.
func muteAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// closedAddress is an address at which nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return l.Addr().String()
}

func TestCausesOfAConnection(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	plain, _ := serve(t, serveManifest)
	secure := func(config *tls.Config) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(serveManifest))
		s.TLS, s.Config.ErrorLog = config, quiet
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	untrusted := secure(nil)
	clients := secure(&tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12})
	old := secure(&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: untrusted.Certificate().Raw})
	if err := os.WriteFile(ca, data, 0o644); err != nil {
		t.Fatal(err)
	}
	mute := muteAddress(t)

	for name, test := range map[string]struct {
		hosts string
		class failure.Class
	}{
		"trusted":            {fmt.Sprintf("server = %q\nca = %q\n", untrusted.URL, ca), failure.None},
		"not verified":       {fmt.Sprintf("server = %q\nskip_verify = true\n", untrusted.URL), failure.None},
		"refused":            {chain("http://" + closedAddress(t)), failure.Unreachable},
		"name not found":     {chain("http://registry.invalid"), failure.Unreachable},
		"no answer":          {chain("http://" + mute), failure.Unreachable},
		"no TLS handshake":   {chain("https://" + mute), failure.Unreachable},
		"unknown authority":  {chain(untrusted.URL), failure.Invalid},
		"another name":       {fmt.Sprintf("server = %q\nca = %q\n", strings.Replace(untrusted.URL, "127.0.0.1", "localhost", 1), ca), failure.Invalid},
		"HTTP answers HTTPS": {chain(strings.Replace(plain.URL, "http:", "https:", 1)), failure.Invalid},
		"certificate asked":  {fmt.Sprintf("server = %q\nskip_verify = true\n", clients.URL), failure.Invalid},
		"TLS too old":        {fmt.Sprintf("server = %q\nskip_verify = true\n", old.URL), failure.Invalid},
		"HTTPS answers HTTP": {chain(strings.Replace(untrusted.URL, "https:", "http:", 1)), failure.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{HostDirs: []string{hostsDir(t, test.hosts)}}, Query{})
			timeout := plenty
			if strings.HasPrefix(name, "no ") {
				timeout = 100 * time.Millisecond
			}
			_, err := s.Resolve(t.Context(), timeout)
			if test.class == failure.None {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantClass(t, err, test.class)
		})
	}
}

func TestProxyRefuses(t *testing.T) {
	proxy, log := serve(t, answerStatus(http.StatusForbidden))
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("user", "proxysecret")
	s := open(t, Options{Hosts: func(_ context.Context, _ Credentials, update config.UpdateClientFunc) docker.RegistryHosts {
		return func(string) ([]docker.RegistryHost, error) {
			transport := docker.DefaultHTTPTransport(nil)
			transport.Proxy = http.ProxyURL(u)
			client := &http.Client{Transport: transport}
			return []docker.RegistryHost{{
				Client: client, Scheme: "https", Host: "registry.invalid", Path: "/v2",
				Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
			}}, update(client)
		}
	}}, Query{})
	_, err = s.Resolve(t.Context(), plenty)
	e := wantClass(t, err, failure.Unreachable)
	if !strings.Contains(e.Error(), "refuses: 403 Forbidden") || strings.Contains(e.Error(), "proxysecret") {
		t.Error(e)
	}
	if n := len(log.list()); n != 1 {
		t.Errorf("asked the proxy %d times", n)
	}
}
