// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/containerd/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A registry refuses a token, and names its token server by that: neither spans, log nor error have it.
func TestSpansOfTokenServersNamedByATokenTellNone(t *testing.T) {
	for _, way := range []string{"path", "host"} {
		for _, code := range []int{http.StatusOK, http.StatusForbidden, http.StatusServiceUnavailable} {
			t.Run(fmt.Sprint(way, code), func(t *testing.T) {
				const token = "t0kent0kent0kent0ken"
				g := newGuarded(t)
				g.tokens = func(w http.ResponseWriter, r *http.Request) {
					if code != http.StatusOK && strings.Contains(r.URL.Path, token) {
						w.WriteHeader(code)
						return
					}
					_, _ = fmt.Fprintf(w, `{"token":%q,"access_token":%q}`, token, token)
				}
				other, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					if code != http.StatusOK {
						w.WriteHeader(code)
						return
					}
					_, _ = fmt.Fprint(w, `{"token":"another-another","access_token":"another-another"}`)
				})
				server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					realm := g.server.URL + "/token"
					switch r.Header.Get("Authorization") {
					case "":
					case "Bearer " + token:
						if way == "path" {
							realm = other.URL + "/" + token + "/token"
						} else {
							realm = "http://" + token + ".localhost:1/token"
						}
					default:
						serveManifest(w, r)
						return
					}
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s",service="x"`, realm))
					w.WriteHeader(http.StatusUnauthorized)
				})
				recorder := tracetest.NewSpanRecorder()
				entry, logged := newLogger(log.TraceLevel)
				ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(log.WithLogger(t.Context(), entry), "pull")
				session := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: alice})
				_, err := session.Resolve(ctx, plenty)
				span.End()
				if strings.Contains(fmt.Sprint(err), token) {
					t.Errorf("error: %v", err)
				}
				if strings.Contains(fmt.Sprint(logged), token) {
					t.Errorf("log: %v", logged)
				}
				for _, s := range recorder.Ended() {
					text := fmt.Sprintf("%s %+v %+v %+v", s.Name(), s.Status(), s.Attributes(), s.Events())
					if strings.Contains(strings.ToLower(text), token) {
						t.Errorf("span: %s", text)
					}
				}
			})
		}
	}
}

// Another request of the same caller joins, before it has been shown the token that the registry has
// refused and names its token server by: its error and log have no token.
func TestJoinedTokenServersNamedByATokenTellNone(t *testing.T) {
	const token = "t0kent0kent0kent0ken"
	g := newGuarded(t)
	g.tokens = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"token":%q,"access_token":%q}`, token, token)
	}
	asked, answer := make(chan struct{}, 9), make(chan struct{})
	other, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusForbidden)
	})
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		realm := g.server.URL + "/token"
		if r.Header.Get("Authorization") == "Bearer "+token {
			realm = other.URL + "/" + token + "/token"
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s",service="x"`, realm))
		w.WriteHeader(http.StatusUnauthorized)
	})
	res := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}})
	ask := func() chan string {
		end := make(chan string, 1)
		s := openAt(t, res, Query{Credentials: alice})
		entry, logged := newLogger(log.TraceLevel)
		go func() {
			_, err := s.Resolve(log.WithLogger(t.Context(), entry), plenty)
			end <- fmt.Sprintf("error: %v\nlog: %s", err, logged)
		}()
		return end
	}
	first := ask()
	<-asked
	second := ask()
	time.Sleep(300 * time.Millisecond) // until it has joined
	close(answer)
	for who, end := range map[string]chan string{"first": first, "second": second} {
		if text := <-end; strings.Contains(text, token) {
			t.Errorf("%s: %s", who, text)
		}
	}
}
