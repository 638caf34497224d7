// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessTellsNoSecret pulls in every way that works and that fails, from
// registries that repeat what they were sent, and looks for the secrets in
// everything that the daemon tells and keeps.
func TestAccessTellsNoSecret(t *testing.T) {
	t.Parallel()
	metrics := freeAddress(t)
	d := start(t, section(`verify_timeout = "2s"`), tables(fmt.Sprintf("[plugins.'io.containerd.server.v1.metrics']\n  address = %q\n", metrics)))
	var secrets traces
	identity := "identity-token:0123456789+/=<\"\\>"
	embedded := tenant{"embedded", "password-in-an-address"}
	for _, who := range []tenant{alice, bob, eve, wrong, embedded} {
		secrets.addTenant(who)
	}
	secrets.add("the identity token", identity)
	secrets.add("what is malformed", "malformed: "+bob.password)

	b64 := base64.StdEncoding.EncodeToString
	callers := map[string]pullOption{
		"alice": alice.secret(), "wrong": wrong.secret(), "eve": eve.secret(), "nobody": nobody.secret(), "bob": bob.secret(),
		"combined":        auth(&runtimeapi.AuthConfig{Auth: b64([]byte(alice.user + ":" + alice.password))}),
		"identity token":  auth(&runtimeapi.AuthConfig{IdentityToken: identity}),
		"registry token":  auth(&runtimeapi.AuthConfig{RegistryToken: identity}),
		"malformed":       auth(&runtimeapi.AuthConfig{Auth: "malformed: " + bob.password}),
		"no colon":        auth(&runtimeapi.AuthConfig{Auth: b64([]byte(bob.password))}),
		"another host":    auth(&runtimeapi.AuthConfig{Username: bob.user, Password: bob.password, ServerAddress: "https://other.test"}),
		"host with login": auth(&runtimeapi.AuthConfig{Username: bob.user, Password: bob.password, ServerAddress: "https://" + embedded.user + ":" + embedded.password + "@r401.test:x"}),
	}
	var told []string
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		g := newGuarded(t, kind, "r"+name+".test")
		g.serve(d)
		secrets.watchTokens(g)
		for i, trouble := range echoes() {
			s := g.scene(t, d, fmt.Sprintf("private/app%d", i))
			byDigest := s.push("1", image(int64(i)))
			s.mustPull(s.ref(":1"), alice.secret()) // so that there is something to reuse
			undo := trouble.script(g)
			for who, secret := range callers {
				if i > 0 && who != "alice" && who != "wrong" && who != "identity token" {
					continue // with the first trouble, which is none, everybody pulls
				}
				for _, ref := range []string{s.ref(":1"), byDigest}[:max(1, 2-i)] {
					_, err := s.pull(ref, secret, hint("policy", "IfDigestChanged", "on-unreachable", "Fail"))
					told = append(told, fmt.Sprintf("%s, %s, %s: %v", trouble.what, who, ref, err))
				}
			}
			s.push("2", image(int64(i+1000)))
			_, err := s.pull(s.ref(":2"), alice.secret()) // the content is asked for, too
			told = append(told, fmt.Sprintf("%s, alice, content: %v", trouble.what, err))
			undo()
			s.up()
		}
	}
	all := d.tell(metrics)
	all["errors"] = []byte(strings.Join(told, "\n"))
	for where, b := range all {
		for _, what := range secrets.in(b) {
			t.Errorf("%s has %s", where, what)
		}
	}
	for _, told := range []string{"you sent " + encode(alice.password), "Basic " + b64([]byte(bob.user+":"+bob.password)), "x." + someKey(secrets.tokens) + `"`} {
		if len(secrets.in([]byte(told))) == 0 {
			t.Errorf("it would not be seen that somebody tells %s", told)
		}
	}
	if !bytes.Contains(all["metrics"], []byte("pullwarden_decisions_total")) || !bytes.Contains(all["image records"], []byte("pullwarden.io/access.")) || len(all) < 10 || len(secrets.tokens) == 0 {
		t.Error("there is nothing to look at")
	}
}

func someKey(m map[string]bool) string {
	for key := range m {
		return key
	}
	return ""
}

// echo is a trouble of a registry that repeats what it was sent.
type echo struct {
	what   string
	script func(*guarded) (undo func())
}

// echoes are answers with what is in the request, in the places and encodings
// in which registries, token servers and proxies put it.
func echoes() []echo {
	none := echo{"no trouble", func(*guarded) func() { return func() {} }}
	all := []echo{none}
	add := func(what string, answer func(w http.ResponseWriter, sent string)) {
		for _, part := range []resolvertest.Part{resolvertest.Tokens, resolvertest.Manifests, resolvertest.Blobs} {
			all = append(all, echo{what + " by " + string(part), func(g *guarded) func() {
				return g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if !strings.Contains(r.URL.Path, strings.TrimSuffix(string(part), "s")) || part != resolvertest.Tokens && r.Header.Get("Authorization") == "" {
						next.ServeHTTP(w, r)
						return
					}
					answer(w, sentIn(r))
				})
			}})
		}
	}
	status := func(code int, body func(sent string) string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, sent string) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body(sent))
		}
	}
	plain := func(sent string) string { return "what is this? " + sent }
	document := func(sent string) string { return encode(map[string]any{"request": sent}) }
	errorsOf := func(sent string) string {
		return encode(map[string]any{"errors": []any{map[string]any{"code": sent, "message": "you sent " + sent, "detail": sent}}})
	}
	for _, code := range []int{400, 401, 403, 500} {
		add(fmt.Sprint(code, ", text"), status(code, plain))
		add(fmt.Sprint(code, ", errors"), status(code, errorsOf))
	}
	add("400, JSON", status(400, document))
	add("400, far in", status(400, func(sent string) string { return strings.Repeat("x", 200) + sent }))
	add("200, JSON", status(200, document))
	add("challenge", func(w http.ResponseWriter, sent string) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=%q", "http://127.0.0.1:1/token?"+sent, sent))
		w.WriteHeader(http.StatusUnauthorized)
	})
	add("unknown challenge", func(w http.ResponseWriter, sent string) {
		w.Header().Set("WWW-Authenticate", "Negotiate "+sent)
		w.WriteHeader(http.StatusUnauthorized)
	})
	for _, location := range []string{"http://127.0.0.1:1/%s", "http://x:%s@127.0.0.1:1/", "http://127.0.0.1:1/?token=%s", "http://a b/%s"} {
		add("redirect to "+location, func(w http.ResponseWriter, sent string) {
			w.Header().Set("Location", fmt.Sprintf(location, sent))
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
	}
	for _, header := range []string{"Docker-Content-Digest", "Content-Type", "Warning", "Retry-After", "Content-Encoding"} {
		add("header "+header, func(w http.ResponseWriter, sent string) {
			if header == "Warning" {
				sent = `299 - "` + sent + `"`
			}
			w.Header().Set(header, sent)
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, sent)
		})
	}
	return all
}

// sentIn returns the credentials of a request, as they are and decoded.
func sentIn(r *http.Request) string {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	r.Body = io.NopCloser(bytes.NewReader(body))
	_, password, _ := r.BasicAuth()
	sent := []string{r.Header.Get("Authorization"), password, string(body)}
	if r.ParseForm() == nil {
		sent = append(sent, r.PostForm.Get("password"), r.PostForm.Get("refresh_token"))
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' {
			return -1
		}
		return c
	}, strings.Join(sent, " "))
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// freeAddress returns an address of which the port is free now.
func freeAddress(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
