// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

var users = map[string]string{"ann": "a", "bob": "b"}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// tokenFor asks for a token to pull app, without credentials where user is "".
func tokenFor(t *testing.T, c *http.Client, r *resolvertest.Registry, user, password string) string {
	t.Helper()
	var headers []string
	if user != "" {
		headers = []string{"Authorization", basic(user, password)}
	}
	a := get(t, c, r.URL()+"/token?service=resolvertest&scope=repository:app:pull", headers...)
	var body struct {
		Token     string `json:"token"`
		ExpiresIn int    `json:"expires_in"`
	}
	_ = json.Unmarshal(a.body, &body)
	return body.Token
}

func TestTokenAuth(t *testing.T) {
	r := resolvertest.New(t, resolvertest.WithTokenAuth(users))
	push(t, r, "app:1", resolvertest.Image(1, 1, 10))
	push(t, r, "other:1", resolvertest.Image(1, 1, 10))
	c := client(t, r)
	ann := tokenFor(t, c, r, "ann", "a")
	tests := []struct{ name, token, repository, challenge string }{
		{"right token", ann, "app", ""},
		{"no token", "", "app", `scope="repository:app:pull"`},
		{"another repository's", ann, "other", `error="insufficient_scope"`},
		{"garbage", "x.y.z", "app", `error="invalid_token"`},
		{"forged", ann[:strings.LastIndex(ann, ".")] + ".AAAA", "app", `error="invalid_token"`},
		{"without credentials", tokenFor(t, c, r, "", ""), "app", `error="insufficient_scope"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := get(t, c, r.URL()+"/v2/"+tt.repository+"/manifests/1", "Authorization", "Bearer "+tt.token)
			challenge := a.Header.Get("WWW-Authenticate")
			want(t, "refused", a.StatusCode == http.StatusUnauthorized, tt.challenge != "")
			want(t, "challenge has the realm", strings.Contains(challenge, `realm="`+r.URL()+`/token"`), tt.challenge != "")
			if !strings.Contains(challenge, tt.challenge) {
				t.Errorf("challenge is %q, want %q in it", challenge, tt.challenge)
			}
		})
	}
	want(t, "wrong password", tokenFor(t, c, r, "ann", "b"), "")
	want(t, "unknown user", tokenFor(t, c, r, "eve", ""), "")
}

func TestTokensEnd(t *testing.T) {
	r := resolvertest.New(t, resolvertest.WithTokenAuth(users))
	push(t, r, "app:1", resolvertest.Image(1, 1, 10))
	c := client(t, r)
	status := func(token string) int {
		return get(t, c, r.URL()+"/v2/app/manifests/1", "Authorization", "Bearer "+token).StatusCode
	}
	token := tokenFor(t, c, r, "ann", "a")
	want(t, "status", status(token), 200)
	r.RevokeTokens()
	want(t, "status once revoked", status(token), 401)
	want(t, "status of a new one", status(tokenFor(t, c, r, "ann", "a")), 200)

	token = tokenFor(t, c, r, "ann", "a")
	other := tokenFor(t, c, r, "bob", "b")
	r.RevokeTokensOf("ann", "other")
	want(t, "status after those for another repository", status(token), 200)
	r.RevokeTokensOf("ann", "app")
	want(t, "status of the one revoked", status(token), 401)
	want(t, "status of another user's", status(other), 200)
	want(t, "status of a new one", status(tokenFor(t, c, r, "ann", "a")), 200)

	r.SetTokenLifetime(200 * time.Millisecond)
	token = tokenFor(t, c, r, "ann", "a")
	for deadline := time.Now().Add(time.Minute); status(token) != 401; {
		if time.Now().After(deadline) {
			t.Fatal("the token does not expire")
		}
	}
}

func TestAllow(t *testing.T) {
	onlyAnn := func(user, repository string) bool { return user == "ann" || repository == "public" }
	tests := []struct {
		name   string
		opt    resolvertest.Option
		status map[string]int // by "user repository"
	}{
		{"basic", resolvertest.WithBasicAuth(users), map[string]int{
			"ann app": 200, "bob app": 403, " app": 401, "eve app": 401,
			"ann public": 200, "bob public": 200, " public": 200, "eve public": 401,
		}},
		{"token", resolvertest.WithTokenAuth(users), map[string]int{
			"ann app": 200, "bob app": 401, " app": 401, "eve app": 401,
			"ann public": 200, "bob public": 200, " public": 200, "eve public": 401,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := resolvertest.New(t, tt.opt)
			r.Allow(onlyAnn)
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			for _, repository := range []string{"app", "public"} {
				push(t, r, repository+":1", resolvertest.Image(1, 1, 10))
			}
			for who, code := range tt.status {
				user, repository, _ := strings.Cut(who, " ")
				auth := authn.Anonymous
				if user != "" {
					auth = &authn.Basic{Username: user, Password: cmp.Or(users[user], "wrong")}
				}
				_, err := remote.Head(must(name.ParseReference(r.Host()+"/"+repository+":1")),
					remote.WithAuth(auth), remote.WithTransport(transport))
				if (err == nil) != (code == 200) {
					t.Errorf("%q: error is %v, want status %d", who, err, code)
				}
			}
		})
	}
}

// TestContainerdAuthorizer holds that containerd's own client gets along with
// the token server, with credentials and without.
func TestContainerdAuthorizer(t *testing.T) {
	r := resolvertest.New(t, resolvertest.WithTokenAuth(users))
	r.Allow(func(user, repository string) bool { return user == "ann" || repository == "public" })
	private := push(t, r, "app:1", resolvertest.Image(1, 1, 10))
	push(t, r, "public:1", resolvertest.Image(1, 1, 10))
	tests := []struct {
		user, password, ref string
		ok                  bool
	}{
		{"ann", "a", "app:1", true},
		{"bob", "b", "app:1", false},
		{"ann", "wrong", "app:1", false},
		{"", "", "app:1", false},
		{"", "", "public:1", true},
	}
	for _, tt := range tests {
		t.Run(tt.user+" "+tt.password+" "+tt.ref, func(t *testing.T) {
			c := client(t, r)
			resolver := docker.NewResolver(docker.ResolverOptions{Hosts: docker.ConfigureDefaultRegistries(
				docker.WithPlainHTTP(docker.MatchLocalhost), docker.WithClient(c),
				docker.WithAuthorizer(docker.NewDockerAuthorizer(docker.WithAuthClient(c),
					docker.WithAuthCreds(func(string) (string, string, error) { return tt.user, tt.password, nil }))),
			)})
			_, desc, err := resolver.Resolve(t.Context(), r.Host()+"/"+tt.ref)
			want(t, "it resolves", err == nil, tt.ok)
			if tt.ok && desc.Digest.String() != private {
				t.Errorf("digest is %s, want %s (%v)", desc.Digest, private, err)
			}
		})
	}
}

// TestProbe holds that a probe of the token server is told from a request for a token.
func TestProbe(t *testing.T) {
	r := resolvertest.New(t, resolvertest.WithTokenAuth(users))
	c := client(t, r)
	for path, probe := range map[string]bool{
		"/v2/": true, "/token?service=s": true,
		"/v2/app/manifests/1": false, "/v2/app/blobs/x": false, "/token?service=s&scope=repository:app:pull": false,
	} {
		r.Forget()
		_ = get(t, c, r.URL()+path)
		want(t, path+" is a probe", r.Count(resolvertest.Probe), map[bool]int{true: 1}[probe])
		want(t, path+" is none", r.Count(resolvertest.NoProbe), map[bool]int{false: 1}[probe])
	}
	r.Forget()
	_ = tokenFor(t, c, r, "ann", "a")
	want(t, "requests for a token", r.Count(resolvertest.NoProbe), 1)
}
