// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

const (
	// lookalike is not registry.test, but strings.ToLower of it is: U+0130, the capital i with a
	// dot, becomes an i there. For DNS it is another name.
	lookalike      = "reg\u0130stry.test"
	lookalikeInDNS = "xn--registry-r0e.test"
)

// internet has hosts by name, with TLS and certificates that the daemon trusts. The daemon reaches
// them by a proxy, which stands for DNS.
type internet struct {
	proxy, tls *httptest.Server
	ca         string

	mu  sync.Mutex
	got []http.Header // of requests for the lookalike
}

func newInternet(t *testing.T, hosts map[string]http.Handler) *internet {
	t.Helper()
	n := &internet{ca: filepath.Join(t.TempDir(), "ca.pem")}
	n.tls = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.ServerName
		if name == lookalikeInDNS {
			n.mu.Lock()
			n.got = append(n.got, r.Header.Clone())
			n.mu.Unlock()
		}
		hosts[name].ServeHTTP(w, r)
	}))
	var names []string
	for name := range hosts {
		names = append(names, name)
	}
	n.tls.TLS = &tls.Config{Certificates: []tls.Certificate{n.certificate(t, names)}}
	n.tls.StartTLS()
	t.Cleanup(n.tls.Close)
	n.proxy = httptest.NewServer(http.HandlerFunc(n.connect))
	t.Cleanup(n.proxy.Close)
	return n
}

func (n *internet) certificate(t *testing.T, names []string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (n *internet) connect(w http.ResponseWriter, _ *http.Request) {
	behind, err := net.Dial("tcp", n.tls.Listener.Addr().String())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer behind.Close()
	w.WriteHeader(http.StatusOK)
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	go func() {
		_, _ = io.Copy(behind, buffered)
		_ = behind.Close()
	}()
	_, _ = io.Copy(c, behind)
}

// node is one of that internet.
func (n *internet) node(t *testing.T, options ...nodetest.Option) *nodetest.Node {
	t.Helper()
	return nodetest.New(t, append(options, nodetest.Env("HTTPS_PROXY="+n.proxy.URL, "SSL_CERT_FILE="+n.ca))...)
}

// wantNothing fails if the lookalike was shown a secret.
func (n *internet) wantNothing(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.got) == 0 {
		t.Error("it was not asked: the test shows nothing")
	}
	for _, h := range n.got {
		for _, name := range []string{"Authorization", "X-Pass"} {
			if h.Get(name) != "" {
				t.Errorf("%s (%s) is shown %s: %s", lookalike, lookalikeInDNS, name, h.Get(name))
			}
		}
	}
}

// asks wants credentials, and has nothing.
var asks = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
	http.Error(w, "who is there?", http.StatusUnauthorized)
})

// leads redirects to another host.
func leads(host string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "https://"+host+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
}

// TestStorageThatLeadsToALookalike holds that a storage service gets neither the caller's
// credentials nor what the node shows the registry by redirecting to a host of its own whose name
// is spelled nearly as the registry's.
func TestStorageThatLeadsToALookalike(t *testing.T) {
	t.Parallel()
	i := newInternet(t, map[string]http.Handler{"registry.test": leads("storage.test"), "storage.test": leads(lookalike), lookalikeInDNS: asks})
	n := i.node(t)
	n.WriteHosts("registry.test", fmt.Sprintf("server = \"https://registry.test\"\nheader = { X-Pass = %q }\n", word))
	if _, err := n.Pull("registry.test/private/app:1", alice.secret(), node.Hint("policy", "Always")); err == nil {
		t.Error("nobody has the image")
	}
	i.wantNothing(t)
}

// TestTenantThatLeadsToALookalike holds that a tenant's registry does not get the credentials
// that the node has for another one by redirecting to a host of its own whose name is spelled
// nearly as that one's.
func TestTenantThatLeadsToALookalike(t *testing.T) {
	t.Parallel()
	i := newInternet(t, map[string]http.Handler{"tenant.test": leads(lookalike), lookalikeInDNS: asks})
	n := i.node(t, nodetest.CRICredentials("registry.test", "node", "word of the node"))
	if _, err := n.Pull("tenant.test/app:1"); err == nil {
		t.Error("nobody has the image")
	}
	i.wantNothing(t)
}
