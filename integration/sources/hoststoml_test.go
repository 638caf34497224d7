// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// wantHeader lets a registry forbid what comes without X-Pass: word.
func wantHeader(_ *testing.T, r *resolvertest.Registry) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Header.Get("X-Pass") != "word" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// hostsTOML is the table of what hosts.toml can say of a host.
var hostsTOML = []struct {
	name    string
	opts    []resolvertest.Option
	lines   string // of the mirror's table; %s is the directory with ca.pem, client.pem and client.key
	adapt   func(t *testing.T, r *resolvertest.Registry)
	works   bool
	message string
}{
	{"nothing said", nil, "", nil, true, ""},
	{"pull and resolve", nil, `capabilities = ["pull", "resolve"]`, nil, true, ""},
	{"only pull", nil, `capabilities = ["pull"]`, nil, false, "unreachable"},
	{"only resolve", nil, `capabilities = ["resolve"]`, nil, false, "unreachable"},
	{"unknown CA", []resolvertest.Option{resolvertest.WithTLS()}, "", nil, false, "certificate"},
	{"CA", []resolvertest.Option{resolvertest.WithTLS()}, `ca = "%s/ca.pem"`, nil, true, ""},
	{"list of CAs", []resolvertest.Option{resolvertest.WithTLS()}, `ca = ["%s/ca.pem"]`, nil, true, ""},
	{"skip_verify", []resolvertest.Option{resolvertest.WithTLS()}, `skip_verify = true`, nil, true, ""},
	{"no client certificate", []resolvertest.Option{resolvertest.WithClientCertificates()}, `ca = "%s/ca.pem"`, nil, false, "certificate"},
	{
		"client certificate",
		[]resolvertest.Option{resolvertest.WithClientCertificates()},
		"ca = \"%[1]s/ca.pem\"\nclient = [[\"%[1]s/client.pem\", \"%[1]s/client.key\"]]", nil, true, "",
	},
	{"header", nil, `header = { X-Pass = ["word"] }`, func(t *testing.T, r *resolvertest.Registry) {
		wantHeader(t, r)
		t.Cleanup(func() {
			if r.Count(resolvertest.Of("GET", resolvertest.Blobs)) == 0 {
				t.Error("no blob was fetched")
			}
		})
	}, true, ""},
	{"no header", nil, "", wantHeader, false, "403"},
}

// TestHostsTOML has, for each entry of the table, "app:1" served by one mirror
// that is set up in that way; the origin is down.
func TestHostsTOML(t *testing.T) {
	t.Parallel()
	for _, tt := range hostsTOML {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := resolvertest.New(t, tt.opts...)
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "20s"`))
			n.Registry.Refuse()
			dgst := n.PushTo(r, "app:1", nodetest.Image(1))
			if tt.adapt != nil {
				tt.adapt(t, r)
			}
			if r.CAPEM() != nil {
				n.Write(n.Path("files", "ca.pem"), string(r.CAPEM()))
				n.Write(n.Path("files", "client.pem"), string(r.ClientCertPEM()))
				n.Write(n.Path("files", "client.key"), string(r.ClientKeyPEM()))
			}
			lines := tt.lines
			if strings.Contains(lines, "%") {
				lines = fmt.Sprintf(lines, n.Path("files"))
			}
			n.WriteHosts("registry.test", fmt.Sprintf("server = %q\n[host.%q]\n%s\n", n.Registry.URL(), r.URL(), lines))
			_, err := n.Pull(nodetest.Named("app:1"))
			nodetest.Want(t, "pull works", err == nil, tt.works)
			if tt.works && err == nil {
				nodetest.Want(t, "target", n.Target(nodetest.Named("app:1")), dgst)
				return
			}
			if err == nil {
				return
			}
			nodetest.WantWords(t, err, n.Registry.Host(), tt.message)
		})
	}
}

// TestOverridePath serves the API below another path.
func TestOverridePath(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rest, ok := strings.CutPrefix(r.URL.Path, "/cache/v2")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		r = r.Clone(r.Context())
		r.URL.Path = "/v2" + rest
		r.RequestURI = r.URL.RequestURI()
		next.ServeHTTP(w, r)
	})
	n.WriteHosts("registry.test", fmt.Sprintf("[host.%q]\noverride_path = true\n", n.Registry.URL()+"/cache/v2"))
	n.MustPull(nodetest.Named("app:1"))
	n.MustPull(nodetest.Named("app:1"))
	for _, method := range []string{http.MethodGet, http.MethodHead} { // of the absent image, and of the one that is there
		nodetest.Want(t, method, n.Registry.Count(resolvertest.Of(method, resolvertest.Manifests)), 1)
	}
}
