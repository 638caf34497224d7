// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// traces are what a secret can be found as.
type traces struct {
	mu     sync.Mutex
	all    map[string]string // pattern → what it is
	tokens map[string]bool   // signatures of tokens, in lower case
}

// add adds a secret in its usual encodings, and hashed.
func (tr *traces) add(what, secret string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.all == nil {
		tr.all = map[string]string{}
	}
	put := func(pattern, how string) {
		if len(pattern) >= 8 {
			tr.all[pattern] = what + how
		}
	}
	asJSON, _ := json.Marshal(secret)
	var plain strings.Builder
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(secret)
	query := url.QueryEscape(secret)
	put(secret, "")
	put(query, " in a query")
	put(strings.ToLower(query), " in a query, lower case")
	put(url.PathEscape(secret), " in a path")
	put(strings.Trim(string(asJSON), `"`), " in JSON")
	put(strings.Trim(strings.TrimSpace(plain.String()), `"`), " in JSON")
	put(strings.Trim(strconv.Quote(secret), `"`), " in quotes")
	put(strings.Trim(strconv.QuoteToASCII(secret), `"`), " in quotes")
	put(html.EscapeString(secret), " in HTML")
	raw := []byte(secret)
	for how, b := range map[string][]byte{
		"": raw, " hashed by SHA-256": sum(sha256.Sum256(raw)), " hashed by SHA-512": sum(sha512.Sum512(raw)),
		" hashed by SHA-1": sum(sha1.Sum(raw)), " hashed by MD5": sum(md5.Sum(raw)),
	} {
		put(string(b), how)
		put(hex.EncodeToString(b), how+" in hex")
		put(strings.ToUpper(hex.EncodeToString(b)), how+" in hex")
		put(base64.StdEncoding.EncodeToString(b), how+" in base64")
		put(base64.RawStdEncoding.EncodeToString(b), how+" in base64")
		put(base64.URLEncoding.EncodeToString(b), how+" in base64")
		put(base64.RawURLEncoding.EncodeToString(b), how+" in base64")
	}
}

func sum[T [16]byte | [20]byte | [32]byte | [64]byte](b T) []byte {
	switch b := any(b).(type) {
	case [16]byte:
		return b[:]
	case [20]byte:
		return b[:]
	case [32]byte:
		return b[:]
	case [64]byte:
		return b[:]
	}
	return nil
}

// addCaller adds a password, alone and together with its user.
func (tr *traces) addCaller(t caller) {
	tr.add("the password of "+t.String(), t.password)
	tr.add("the credentials of "+t.String(), t.user+":"+t.password)
}

// signatureSize is how many bytes the signature of a token has.
const signatureSize = 43

// addToken adds a token by its signature, which has no characters that are
// written otherwise anywhere. There are many tokens.
func (tr *traces) addToken(token string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.tokens == nil {
		tr.tokens = map[string]bool{}
	}
	tr.tokens[strings.ToLower(token[strings.LastIndex(token, ".")+1:])] = true
}

// in lists the traces that are in something.
func (tr *traces) in(b []byte) []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var found []string
	for pattern, what := range tr.all {
		if i := bytes.Index(b, []byte(pattern)); i >= 0 {
			from, to := max(0, i-300), min(len(b), i+len(pattern)+40)
			found = append(found, fmt.Sprintf("%s:\n\t%q", what, b[from:to]))
		}
	}
	for word := range bytes.FieldsFuncSeq(b, func(c rune) bool { return c != '-' && c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		if len(word) == signatureSize && tr.tokens[strings.ToLower(string(word))] {
			found = append(found, fmt.Sprintf("a token with the signature %s", word))
		}
	}
	return found
}

// watchTokens adds the tokens that a registry hands out.
func (tr *traces) watchTokens(g *guarded) {
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path != "/token" {
			next.ServeHTTP(w, r)
			return
		}
		var body bytes.Buffer
		next.ServeHTTP(&tee{ResponseWriter: w, copy: &body}, r)
		var answer struct {
			Token string `json:"token"`
		}
		if json.Unmarshal(body.Bytes(), &answer) == nil && answer.Token != "" {
			tr.addToken(answer.Token)
		}
	})
}

type tee struct {
	http.ResponseWriter
	copy io.Writer
}

func (t *tee) Write(p []byte) (int, error) {
	_, _ = t.copy.Write(p)
	return t.ResponseWriter.Write(p)
}
