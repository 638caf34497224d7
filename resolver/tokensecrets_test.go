// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/log"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// told returns the error and the log, at all levels, of a check at a host, with the secret.
func told(t *testing.T, address, secret string) string {
	t.Helper()
	entry, logged := newLogger(log.TraceLevel)
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(address))}}, Query{Credentials: as("alice", secret)})
	_, err := s.Resolve(log.WithLogger(t.Context(), entry), plenty)
	if err == nil {
		t.Error("it has succeeded")
	}
	return fmt.Sprintf("error: %v\nlog: %s", err, logged)
}

// A registry says in the challenge after a token what was wrong with that, of which docker's
// authorizer logs the first 64 bytes: they may end in the middle of a password.
func TestPartsOfPasswordsInChallenges(t *testing.T) {
	const secret = "Summer2024xyzSummer2024xyz"
	g := newGuarded(t)
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			g.serve(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="x",error="%s%s"`, g.server.URL, strings.Repeat("-", 40), secret))
		w.WriteHeader(http.StatusUnauthorized)
	})
	wantNothingOf(t, "summer2024", told(t, server.URL, secret))
}

// The body of a token server's refusal is read up to a bound, before which half a password stands.
func TestPartsOfPasswordsAtTheEndOfABody(t *testing.T) {
	const secret = "Summer2024xyzSummer2024xyz"
	g := newGuarded(t)
	g.tokens = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, strings.Repeat(" ", redact.MaxAnswer-20)+secret)
	}
	wantNothingOf(t, "summer2024", told(t, g.server.URL, secret))
}

// A secret with a colon names the token server: net/url tells what stands behind that, and leaves
// out what stands behind a #. It makes no difference that the secret stands there whole as well.
func TestTokenServersThatAreNoURLs(t *testing.T) {
	const parted = "it names has a secret in its name"
	for secret, want := range map[string]string{
		"abc:summer2024xyz":    "invalid token auth challenge realm",
		"summer2024xyz%zz":     "invalid token auth challenge realm",
		"[summer2024xyz/more":  "invalid token auth challenge realm",
		"summer2024xyz:x#more": parted,
		"summer2024xyz?more":   parted,
		"summer2024xyz#more":   parted,
	} {
		for _, end := range []string{"", "?whole=" + secret} {
			server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+secret+"/token"+end+`",service="x"`)
				w.WriteHeader(http.StatusUnauthorized)
			})
			text := told(t, server.URL, secret)
			wantNothingOf(t, "summer2024", text)
			if !strings.Contains(text, want) {
				t.Errorf("no %s in %s", want, text)
			}
		}
	}
}

// A secret has what ends the host of a URL, and names the token server, which nobody finds: errors
// tell no part of it.
func TestTokenServersNamedByPartsOfSecrets(t *testing.T) {
	for _, c := range []struct{ secret, want string }{
		{"summer2024xyz/more", "POST http://***/token: no such host"},
		{"summer2024xyz:8443", "POST http://***/token: no such host"},
		{"more@summer2024xyz", "POST http://***: no such host"},
	} {
		t.Run(c.secret, func(t *testing.T) {
			server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+c.secret+`/token",service="x"`)
				w.WriteHeader(http.StatusUnauthorized)
			})
			text := told(t, server.URL, c.secret)
			wantNothingOf(t, "summer2024", text)
			if !strings.Contains(text, c.want) {
				t.Errorf("no %q in %s", c.want, text)
			}
		})
	}
}

// A registry names its token server by the password as it was, beside a character that a path does
// not have: net/url writes the whole path anew, and with it an escape that the password has. Of a
// port that is empty net/http leaves out the colon.
func TestTokenServersThatGoWritesInAnotherWay(t *testing.T) {
	for secret, before := range map[string]string{
		"summer2024xyz%2Fmore": "http://127.0.0.1:1/|", "summer2024xyz%41more": "http://127.0.0.1:1/|",
		"summer2024xyz%20more|": "http://127.0.0.1:1/|", "summer2024xyz:/more": "http://",
	} {
		t.Run(secret, func(t *testing.T) {
			server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+before+secret+`",service="x"`)
				w.WriteHeader(http.StatusUnauthorized)
			})
			wantNothingOf(t, "summer2024", told(t, server.URL, secret))
		})
	}
}

// The realm of Basic is no token server: it may have the password, as a word.
func TestPasswordsInRealmsOfBasic(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, sent, _ := r.BasicAuth(); sent == "harbor" {
			serveManifest(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="Harbor? Our registry"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	if _, err := resolve(t, Query{Credentials: as("alice", "harbor")}, server.URL); err != nil {
		t.Error(err)
	}
}

// A host chooses its challenges, and has had the secrets be chosen that are looked for in them: what that costs is bounded for an
// answer, however many there are.
func TestManyChallenges(t *testing.T) {
	for size, want := range map[int]string{30: "it names token servers in more than 8 KiB", 7: "token: "} {
		server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for range size {
				w.Header().Add("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://127.0.0.1:1/%s",service="x"`, strings.Repeat("-", 900)))
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
		if text := told(t, server.URL, "summer2024xyz"); !strings.Contains(text, want) {
			t.Errorf("%d: no %q in %s", size, want, text)
		}
	}
}

// Nor can a caller that was refused have that not count, by a user name that the registry repeats in its
// challenge at such length. The same of another to which it redirects is no refusal.
func TestRefusalsByLongChallenges(t *testing.T) {
	refuse := func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://127.0.0.1:1/%s",service="x"`, strings.Repeat(user, 3)))
		w.WriteHeader(http.StatusUnauthorized)
	}
	asksFirst := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		refuse(w, r)
	}
	storage, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://127.0.0.1:1/%s"`, strings.Repeat("-", 9<<10)))
		w.WriteHeader(http.StatusUnauthorized)
	})
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		refused bool
	}{
		"the registry refuses": {asksFirst, true},
		"a storage service asks for too": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := serve(t, test.handler)
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as(strings.Repeat("tenant", 700), "summer2024xyz")})
			_, err := s.Resolve(t.Context(), plenty)
			e := wantClass(t, err, failure.Unauthorized)
			if !strings.Contains(e.Error(), "it names token servers in more than 8 KiB") || len(e.Refusals()) > 0 != test.refused {
				t.Errorf("%d refusals: %v", len(e.Refusals()), e)
			}
		})
	}
}

// Nor by a password that goes into the name of the token server.
func TestRefusalsByPartedChallenges(t *testing.T) {
	for name, test := range map[string]struct{ user, password, realm string }{
		"the user, in the query":        {"tenant", "account=tenant", "http://127.0.0.1:1/token?account=tenant"},
		"it crosses path and query":     {"tenant", "token?account=tenant", "http://127.0.0.1:1/token?account=tenant"},
		"it crosses what is always so":  {"tenant", "oken?acc", "http://127.0.0.1:1/token?account=all"},
		"the user, escaped in the path": {"ten^ant", "ten^ant", "http://127.0.0.1:1/ten^ant"},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				challenge := `Basic realm="x"`
				if r.Header.Get("Authorization") != "" {
					challenge = fmt.Sprintf(`Bearer realm="%s",service="x"`, test.realm)
				}
				w.Header().Set("WWW-Authenticate", challenge)
				w.WriteHeader(http.StatusUnauthorized)
			})
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as(test.user, test.password)})
			_, err := s.Resolve(t.Context(), plenty)
			if e := wantClass(t, err, failure.Unauthorized); len(e.Refusals()) == 0 {
				t.Errorf("no refusal: %v", e)
			}
		})
	}
}
