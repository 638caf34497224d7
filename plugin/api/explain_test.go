// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// A request that this version does not know is refused in words that do not repeat it.
func TestUnknownRequest(t *testing.T) {
	t.Parallel()
	asked := 0
	s := &Server{Explain: func(context.Context, ExplainRequest) (Explanation, error) {
		asked++
		return Explanation{}, nil
	}}
	for name, request := range map[string]map[string]any{
		"key":             {"reference": "app:1", "secret": "Pa55"},
		"key of auth":     {"auth": map[string]any{"Pa55": "a"}},
		"type of a value": {"auth": map[string]any{"password": 5500.0}},
		"type of auth":    {"auth": "Pa55"},
	} {
		m, err := structpb.NewStruct(request)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.explain(t.Context(), m)
		if status.Code(err) != codes.InvalidArgument || strings.Contains(err.Error(), "55") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if asked != 0 {
		t.Errorf("%d requests came through", asked)
	}
}

// A request that gets into an error or a log line by mistake does not tell its password.
func TestCredentialsDoNotFormat(t *testing.T) {
	t.Parallel()
	r := ExplainRequest{Auth: &Auth{Username: "alice", Password: "Pa55", IdentityToken: "Pa55"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format+format, r, *r.Auth) + fmt.Sprintf(format, r.Auth); strings.Contains(text, "Pa55") {
			t.Errorf("%s: %s", format, text)
		}
	}
}
