// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// echo is a fault of a registry that repeats what it was sent.
type echo struct {
	what   string
	script func(*guarded) (undo func())
}

// echoes are answers with what is in the request, in the places and encodings
// in which registries, token servers and proxies put it.
func echoes() []echo {
	none := echo{"no fault", func(*guarded) func() { return func() {} }}
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
