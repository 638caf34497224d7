// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMirrorOrder is the table of which host confirms a tag, and what happens
// when hosts fail: a mirror's failure proves nothing while another host
// answers, and the class is the origin's when none does.
func TestMirrorOrder(t *testing.T) {
	t.Parallel()
	type trouble = func(*resolvertest.Registry)
	fine := func(*resolvertest.Registry) {}
	code := func(c int) trouble { return func(r *resolvertest.Registry) { r.Status(resolvertest.Manifests, c) } }
	down := (*resolvertest.Registry).Refuse
	html := func(r *resolvertest.Registry) { r.HTML(resolvertest.Manifests) }
	tests := []struct {
		name                  string
		first, second, origin trouble
		by                    string // who confirms; "" for none
		class                 string
	}{
		{"all fine", fine, fine, fine, "first", ""},
		{"first has nothing", code(404), fine, fine, "second", ""},
		{"first is down", down, fine, fine, "second", ""},
		{"first is unavailable", code(503), fine, fine, "second", ""},
		{"first limits", code(429), fine, fine, "second", ""},
		{"first forbids", code(403), fine, fine, "second", ""},
		{"first is a portal", html, fine, fine, "second", ""},
		{"both mirrors are down", down, down, fine, "origin", ""},
		{"both mirrors have nothing", code(404), code(404), fine, "origin", ""},
		{"nobody answers", down, down, down, "", "unreachable"},
		{"a mirror's 404 proves nothing", code(404), code(404), down, "", "unreachable"},
		{"a mirror's 403 proves nothing", code(403), down, code(503), "", "unavailable"},
		{"the origin's 404 counts", down, down, code(404), "", "not_found"},
		{"the origin's 403 counts", down, down, code(403), "", "forbidden"},
	}
	first, second := resolvertest.New(t), resolvertest.New(t)
	n := newNode(t, section(changed, `verify_timeout = "2s"`))
	hosts := n.server(n.r) + n.mirror(first, "") + n.mirror(second, "")
	n.hostsTOML("registry.test", hosts)
	names := map[string]string{first.Host(): "first", second.Host(): "second", n.r.Host(): "origin"}
	for _, r := range []*resolvertest.Registry{first, second, n.r} {
		n.daemon.push(r, "app:1", image(1))
	}
	ref := named("app:1")
	n.mustPull(ref)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n.hostsTOML("registry.test", hosts+"# "+tt.name) // no trouble before counts
			tt.first(first)
			tt.second(second)
			tt.origin(n.r)
			mark := n.mark()
			_, err := n.pull(ref)
			want(t, "pull fails", err != nil, tt.class == "forbidden")
			got := n.decision(mark, ref)
			by, _ := got.entry["verified_by"].(string)
			want(t, "who confirms", names[by], tt.by)
			want(t, "class", got.class, tt.class)
			for _, r := range []*resolvertest.Registry{first, second, n.r} {
				if err := r.Restore(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	down(first)
	down(second)
	down(n.r)
	_ = n.mustFail(ref, []string{first.Host(), second.Host(), n.r.Host(), "refused"}, hint("policy", "Always"))
}

// TestHostsTOML is the table of what hosts.toml can say of a host. Each entry
// serves "app:1" by one mirror that is set up in one way; the origin is down.
func TestHostsTOML(t *testing.T) {
	t.Parallel()
	const mirror = "[host.%q]\n"
	tests := []struct {
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
			r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				if req.Header.Get("X-Pass") != "word" {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				next.ServeHTTP(w, req)
			})
			t.Cleanup(func() {
				if r.Count(resolvertest.Of("GET", resolvertest.Blobs)) == 0 {
					t.Error("no blob was fetched")
				}
			})
		}, true, ""},
		{"no header", nil, "", func(_ *testing.T, r *resolvertest.Registry) {
			r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				if req.Header.Get("X-Pass") != "word" {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				next.ServeHTTP(w, req)
			})
		}, false, "403"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := resolvertest.New(t, tt.opts...)
			n := newNode(t, section(changed, `verify_timeout = "2s"`))
			n.r.Refuse()
			dgst := n.daemon.push(r, "app:1", image(1))
			if tt.adapt != nil {
				tt.adapt(t, r)
			}
			if r.CAPEM() != nil {
				n.file("ca.pem", r.CAPEM())
				n.file("client.pem", r.ClientCertPEM())
				n.file("client.key", r.ClientKeyPEM())
			}
			lines := tt.lines
			if strings.Contains(lines, "%") {
				lines = fmt.Sprintf(lines, n.path("files"))
			}
			n.hostsTOML("registry.test", fmt.Sprintf("server = %q\n"+mirror+"%s\n", n.r.URL(), r.URL(), lines))
			_, err := n.pull(named("app:1"))
			want(t, "pull works", err == nil, tt.works)
			if tt.works && err == nil {
				want(t, "target", n.target(named("app:1")), dgst)
				return
			}
			if err == nil {
				return
			}
			wantWords(t, err, n.r.Host(), tt.message)
		})
	}
}

// TestOverridePath serves the API below another path.
func TestOverridePath(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.push("app:1", image(1))
	n.r.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
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
	n.hostsTOML("registry.test", fmt.Sprintf("[host.%q]\noverride_path = true\n", n.r.URL()+"/cache/v2"))
	n.mustPull(named("app:1"))
	n.mustPull(named("app:1"))
	want(t, "HEADs", n.r.Count(resolvertest.Of(http.MethodHead, resolvertest.Manifests)), 2)
}

// TestNamespaceQuery holds that mirrors are told the registry's name, as
// containerd does it.
func TestNamespaceQuery(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.push("app:1", image(1))
	n.mustPull(named("app:1"))
	for _, r := range n.r.Requests() {
		want(t, r.Method+" "+r.Path+": ns", r.Query.Get("ns"), "registry.test")
	}
}

// TestDialTimeout holds that a mirror that swallows packets costs its
// dial_timeout and not the whole check.
func TestDialTimeout(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t)
	n := newNode(t, section(`verify_timeout = "20s"`))
	n.push("app:1", image(1))
	n.hostsTOML("registry.test", n.server(n.r)+n.mirror(mirror, `dial_timeout = "300ms"`))
	n.mustPull(named("app:1"))
	if err := mirror.Swallow(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	n.mustPull(named("app:1"))
	if took := time.Since(began); took < 250*time.Millisecond || took > 8*time.Second {
		t.Errorf("took %v, want little more than the dial_timeout of 300ms", took)
	}
}

// TestOrigin holds that resolve_from = "Origin" has the tag resolved by the
// registry that the name says, with the content still from the mirror.
func TestOrigin(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t)
	n := newNode(t, section(changed, `resolve_from = "Origin"`, `verify_timeout = "500ms"`))
	n.hostsTOML("registry.test", n.server(n.r)+n.mirror(mirror, ""))
	ref := named("app:1")
	old := n.daemon.push(mirror, "app:1", image(1))
	dgst := n.push("app:1", image(2))
	n.daemon.push(mirror, "app:new", image(2))

	n.mustPull(ref)
	want(t, "target", n.target(ref), dgst)
	eventually(t, "the origin has confirmed it", func() bool { return n.labels(ref)["verified-by"] == n.r.Host() })
	want(t, "HEADs to the mirror", mirror.Count(resolvertest.Of(http.MethodHead, resolvertest.All)), 0)
	want(t, "blobs from the origin", n.r.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)), 0)

	n.mustPull(ref, hint("resolve-from", "Mirrors"))
	want(t, "target by the mirror", n.target(ref), old)

	n.mustPull(ref)
	n.r.Refuse()
	mark := n.mark()
	n.mustPull(ref)
	want(t, "outcome with the origin down", n.decision(mark, ref).outcome, "UsedCached")
}

// TestSeveralDirectories holds that the first directory with a name's
// configuration counts.
func TestSeveralDirectories(t *testing.T) {
	t.Parallel()
	one, two := resolvertest.New(t), resolvertest.New(t)
	d := start(t, hostsDirectories(2))
	dirs := d.hostsDirs()
	d.write(dirs[1]+"/registry.test/hosts.toml", d.server(two))
	d.push(one, "app:1", image(1))
	d.push(two, "app:1", image(2))
	by := func() string {
		mark := d.mark()
		d.mustPull(named("app:1"))
		s, _ := d.decision(mark, named("app:1")).entry["verified_by"].(string)
		return s
	}
	want(t, "host of the second directory", by(), two.Host())
	d.write(dirs[0]+"/registry.test/hosts.toml", d.server(one))
	want(t, "host of the first directory", by(), one.Host())
}

// TestDefaultHosts holds that the directory _default serves every name.
func TestDefaultHosts(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t)
	d := start(t)
	d.hostsTOML("_default", fmt.Sprintf("[host.%q]\n", r.URL()))
	dgst := d.push(r, "app:1", image(1))
	d.mustPull("anywhere.test/app:1")
	want(t, "target", d.target("anywhere.test/app:1"), dgst)
}

// TestBrokenHostsTOML holds that a hosts.toml that does not parse fails the
// pull, with file and line, under every policy that asks, and that a change
// takes effect at the next pull.
func TestBrokenHostsTOML(t *testing.T) {
	t.Parallel()
	n := newNode(t, section(changed))
	n.push("app:1", image(1))
	ref := named("app:1")
	n.mustPull(ref)
	broken := map[string]string{
		"no TOML":            n.server(n.r) + "[host.\n",
		"wrong type":         n.server(n.r) + "[host.\"http://x\"]\ncapabilities = 7\n",
		"unknown capability": n.server(n.r) + "[host.\"http://x\"]\ncapabilities = [\"pul\"]\n",
	}
	for name, content := range broken {
		t.Run(name, func(t *testing.T) {
			n.hostsTOML("registry.test", content)
			n.r.Forget()
			for _, policy := range []string{"Always", "IfDigestChanged"} {
				_ = n.mustFail(ref, []string{"registry.test/hosts.toml:"}, hint("policy", policy))
			}
			want(t, "requests", n.requests(), "")
			n.mustPull(ref, hint("policy", "IfNotPresent"))
		})
	}
	n.origin("registry.test", n.r)
	n.mustPull(ref)
}

// TestHostsTOMLChange moves a name to another registry between two pulls.
func TestHostsTOMLChange(t *testing.T) {
	t.Parallel()
	other := resolvertest.New(t)
	n := newNode(t)
	n.push("app:1", image(1))
	dgst := n.daemon.push(other, "app:1", image(2))
	n.mustPull(named("app:1"))
	n.origin("registry.test", other)
	n.mustPull(named("app:1"))
	want(t, "target", n.target(named("app:1")), dgst)
}
