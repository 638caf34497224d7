// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	tokenPath    = "/token"
	tokenService = "resolvertest"
	jwtHeader    = `{"typ":"JWT","alg":"HS256"}`
)

// WithTokenAuth asks for a bearer token on each request, and hands tokens out
// to these users (name: password) at the path /token of the same port, by GET
// with basic authentication and by POST with a password grant.
func WithTokenAuth(users map[string]string) Option {
	return func(r *Registry) {
		t := &tokenAuth{gate: newGate(users), lifetime: 5 * time.Minute, now: time.Now, revoked: map[grantee]int{}}
		t.rotate()
		r.auth = t
	}
}

// SetTokenLifetime says how long tokens last that are handed out from now on.
// The client is told a time that is rounded up to seconds. Default: 5 minutes.
func (r *Registry) SetTokenLifetime(d time.Duration) {
	if t, ok := r.auth.(*tokenAuth); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.lifetime = d
	}
}

// RevokeTokens makes every token that is out invalid.
func (r *Registry) RevokeTokens() {
	if t, ok := r.auth.(*tokenAuth); ok {
		t.rotate()
	}
}

// RevokeTokensOf makes the tokens of a user that are out worth nothing for a
// repository; "" is whoever gave no name.
func (r *Registry) RevokeTokensOf(user, repository string) {
	t, ok := r.auth.(*tokenAuth)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revoked[grantee{user, repository}]++
}

type tokenAuth struct {
	*gate
	mu       sync.Mutex
	key      []byte
	lifetime time.Duration
	now      func() time.Time
	revoked  map[grantee]int // how often
}

// grantee is who has tokens for a repository.
type grantee struct{ user, repository string }

type claims struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience string   `json:"aud"`
	IssuedAt float64  `json:"iat"`
	Expires  float64  `json:"exp"`
	ID       string   `json:"jti"`
	Access   []access `json:"access"`
}

type access struct {
	Type    string   `json:"type"`
	Name    string   `json:"name"`
	Actions []string `json:"actions"`
	Revoked int      `json:"revoked"` // how often the user's tokens for it were, before
}

type handout struct {
	Token       string `json:"token"`
	AccessToken string `json:"access_token"`
	ExpiresIn   int    `json:"expires_in"` // seconds
	IssuedAt    string `json:"issued_at"`
}

func (t *tokenAuth) rotate() {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key = key
}

func (t *tokenAuth) answered(w http.ResponseWriter, r *http.Request, self string) bool {
	if r.URL.Path == tokenPath {
		t.handOut(w, r)
		return true
	}
	repository, action := repositoryOf(r.URL.Path), actionOf(r.Method)
	problem := t.problem(r.Header.Get("Authorization"), repository, action)
	if problem == nil {
		return false
	}
	challenge := fmt.Sprintf("Bearer realm=%q,service=%q", self+tokenPath, tokenService)
	if repository != "" {
		challenge += fmt.Sprintf(",scope=%q", "repository:"+repository+":"+action)
	}
	if *problem != "" {
		challenge += fmt.Sprintf(",error=%q", *problem)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	return true
}

// problem returns what to say in the challenge, nil for access granted.
func (t *tokenAuth) problem(authorization, repository, action string) *string {
	missing, invalid, insufficient := "", "invalid_token", "insufficient_scope"
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return &missing
	}
	c, ok := t.verify(token)
	if !ok {
		return &invalid
	}
	if repository == "" || slices.ContainsFunc(c.Access, func(a access) bool {
		return a.Type == "repository" && a.Name == repository && slices.Contains(a.Actions, action) &&
			a.Revoked == t.timesRevoked(c.Subject, repository)
	}) {
		return nil
	}
	return &insufficient
}

// handOut is the token server.
func (t *tokenAuth) handOut(w http.ResponseWriter, r *http.Request) {
	var user, password string
	var given bool
	var scopes []string
	switch r.Method {
	case http.MethodGet:
		user, password, given = r.BasicAuth()
		scopes = r.URL.Query()["scope"]
	case http.MethodPost:
		if err := r.ParseForm(); err != nil || r.PostForm.Get("grant_type") != "password" {
			writeError(w, http.StatusBadRequest, "UNSUPPORTED", "only password grants")
			return
		}
		user, password, given = r.PostForm.Get("username"), r.PostForm.Get("password"), true
		scopes = r.PostForm["scope"]
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if given && !t.known(user, password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="resolvertest"`)
		writeError(w, http.StatusUnauthorized, "UNAUTHORIZED", "incorrect username or password")
		return
	}
	token, expiresIn := t.sign(user, t.grant(user, strings.Fields(strings.Join(scopes, " "))))
	w.Header().Set("Content-Type", "application/json")
	answer := handout{token, token, expiresIn, t.now().UTC().Format(time.RFC3339)}
	if err := json.NewEncoder(w).Encode(answer); err != nil { //nolint:gosec // handing tokens out is the point
		panic(http.ErrAbortHandler) // the client has gone
	}
}

// grant returns the access that the user has of what was asked for. Malformed
// scopes grant nothing.
func (t *tokenAuth) grant(user string, scopes []string) []access {
	granted := []access{}
	for _, scope := range scopes {
		parts := strings.Split(scope, ":")
		if len(parts) != 3 || parts[0] != "repository" {
			continue
		}
		// The count comes first: who is shut out in between gets a token that is worth
		// nothing.
		revoked := t.timesRevoked(user, parts[1])
		if t.allowed(user, parts[1]) {
			granted = append(granted, access{Type: parts[0], Name: parts[1], Actions: strings.Split(parts[2], ","), Revoked: revoked})
		}
	}
	return granted
}

func (t *tokenAuth) timesRevoked(user, repository string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revoked[grantee{user, repository}]
}

func (t *tokenAuth) sign(user string, granted []access) (token string, expiresIn int) {
	t.mu.Lock()
	key, lifetime := t.key, t.lifetime
	t.mu.Unlock()
	now := t.now()
	payload, err := json.Marshal(claims{
		Issuer: tokenService, Subject: user, Audience: tokenService, ID: rand.Text(),
		IssuedAt: seconds(now), Expires: seconds(now.Add(lifetime)), Access: granted,
	})
	if err != nil {
		panic(err) // strings and numbers only
	}
	b64 := base64.RawURLEncoding.EncodeToString
	signed := b64([]byte(jwtHeader)) + "." + b64(payload)
	return signed + "." + b64(mac(key, signed)), int((lifetime + time.Second - 1) / time.Second)
}

func (t *tokenAuth) verify(token string) (claims, bool) {
	t.mu.Lock()
	key := t.key
	t.mu.Unlock()
	var c claims
	i := strings.LastIndexByte(token, '.')
	if i < 0 {
		return c, false
	}
	signature, err := base64.RawURLEncoding.DecodeString(token[i+1:])
	if err != nil || !hmac.Equal(signature, mac(key, token[:i])) {
		return c, false
	}
	_, encoded, _ := strings.Cut(token[:i], ".")
	payload, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return c, false
	}
	return c, seconds(t.now()) < c.Expires
}

func mac(key []byte, s string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(s))
	return h.Sum(nil)
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
