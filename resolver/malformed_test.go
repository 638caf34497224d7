// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// written is an answer that a host writes by itself, with what it was sent.
func written(text func(sent string) string) func(w http.ResponseWriter, sent string) {
	return func(w http.ResponseWriter, sent string) {
		conn, _, err := w.(http.Hijacker).Hijack() //nolint:forcetypeassert // it is one
		if err == nil {
			_, _ = io.WriteString(conn, text(sent)+"\r\n\r\n")
			_ = conn.Close()
		}
	}
}

// A secret has what ends a word of a status line, or of a header. Errors say what makes no sense
// there, and repeat nothing.
func TestMalformedAnswers(t *testing.T) {
	for what, c := range map[string]struct {
		secret, before, want string
	}{
		"status":            {"summer2024xyz more", "HTTP/1.1 ", `malformed HTTP status code "…"`},
		"version":           {"summer2024xyz 200", "HTTP/", `malformed HTTP version "…"`},
		"protocol":          {"summer2024xyz", "", `malformed HTTP response "…"`},
		"header":            {"summer2024xyz:more\r\nX: y", "HTTP/1.1 200 OK\r\n", ""},
		"index":             {"71936402:summer2024xyz", "HTTP/1.1 404 Not Found\r\nAge.", ""},
		"line":              {"{\r\n \"key\": \"summer2024xyz\"\r\n}", "HTTP/1.1 200 OK\r\n", `malformed MIME header: missing colon: "…"`},
		"length":            {"summer2024xyz more", "HTTP/1.1 200 OK\r\nContent-Length: ", `bad Content-Length "…"`},
		"coding":            {"summer2024xyz,more", "HTTP/1.1 200 OK\r\nTransfer-Encoding: ", `unsupported transfer encoding: "…"`},
		"coding of content": {"summer2024xyz,more", "HTTP/1.1 200 OK\r\nContent-Encoding: ", ""},
	} {
		t.Run(what, func(t *testing.T) {
			text := repeating(t, c.secret, Query{}, written(func(sent string) string { return c.before + sent }))
			wantNothingOf(t, "summer2024", text)
			if !strings.Contains(text, c.want) {
				t.Errorf("no %s in %s", c.want, text)
			}
		})
	}
}

// redirecting is a registry that redirects to what it was sent.
func redirecting(before string) func(w http.ResponseWriter, sent string) {
	return func(w http.ResponseWriter, sent string) {
		w.Header()["Location"] = []string{before + sent}
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// A secret has what ends a scheme, a user, a host or a port, and a registry redirects to it. Errors
// of name servers, of net/url and of net/http tell no part of it, and say what has failed.
func TestRedirectsToPartsOfSecrets(t *testing.T) {
	for what, c := range map[string]struct {
		secret, before, want string
	}{
		"host and path":    {"summer2024xyz/more", "http://", "HEAD http://***: no such host"},
		"host and port":    {"summer2024xyz:8443", "http://", "HEAD http://***: no such host"},
		"host and query":   {"summer2024xyz?more", "http://", "HEAD http://***: no such host"},
		"end of a host":    {"summer2024xyz/more", "http://evil.", "HEAD http://evil.***: no such host"},
		"host, port, path": {"summer2024xyz/more", "http://127.0.0.1:1.", "307 Temporary Redirect makes no sense"},
		"port":             {"summer2024xyz/more", "http://127.0.0.1:", "307 Temporary Redirect makes no sense"},
		"scheme":           {"summer2024xyz:more", "", "307 Temporary Redirect makes no sense"},
		"user":             {"summer2024xyz@127.0.0.1:1", "http://", "connection refused"},
		"behind a user":    {"more@summer2024xyz", "http://", "HEAD http://***: no such host"},
		"after a password": {"more@summer2024xyz", "http://alice:", "307 Temporary Redirect makes no sense"},
		"dots":             {"more/../summer2024xyz", "http://127.0.0.1:1/", "307 Temporary Redirect makes no sense"},
		"a dot":            {"summer2024xyz/./more", "http://", "307 Temporary Redirect makes no sense"},
		"dots, and whole":  {"more/../summer2024xyz", "http://127.0.0.1:1/more/../summer2024xyz?", "307 Temporary Redirect makes no sense"},
		"password, whole":  {"more@summer2024xyz", "http://alice:more@summer2024xyz/", "307 Temporary Redirect makes no sense"},
		"a password":       {"summer2024xyz", "http://alice:summer2024xyz@127.0.0.1:1/", "connection refused"},
		"a path":           {"summer2024xyz/more", "http://127.0.0.1:1/", "HEAD http://127.0.0.1:1/***: dial tcp 127.0.0.1:1: connect: connection refused"},
	} {
		t.Run(what, func(t *testing.T) {
			text := repeating(t, c.secret, Query{}, redirecting(c.before))
			wantNothingOf(t, "summer2024", text)
			if !strings.Contains(text, c.want) {
				t.Errorf("no %q in %s", c.want, text)
			}
		})
	}
}

// Nor do spans have a part of a secret to which a registry redirects, as a host.
func TestSpansTellNoPartOfASecret(t *testing.T) {
	const secret = "summer2024xyz/more"
	server, _ := serve(t, toldByBasic(redirecting("http://")))
	recorder := tracetest.NewSpanRecorder()
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(t.Context(), "check")
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as("alice", secret)})
	_, _ = s.Resolve(ctx, plenty)
	span.End()
	if len(recorder.Ended()) < 3 {
		t.Errorf("%d spans", len(recorder.Ended()))
	}
	for _, s := range recorder.Ended() {
		wantNothingOf(t, "summer2024", fmt.Sprintf("%s %+v %+v %+v", s.Name(), s.Status(), s.Attributes(), s.Events()))
	}
}
