// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// direct asks a server without a network.
type direct struct {
	grpc.ClientConnInterface
	server *Server
}

func (d direct) Invoke(ctx context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	answer, err := d.server.get(ctx, &emptypb.Empty{})
	if err == nil {
		proto.Merge(reply.(proto.Message), answer)
	}
	return err
}

// The largest number that may be told arrives as it is.
func TestGetIsExact(t *testing.T) {
	t.Parallel()
	want := Status{Pulls: []Pull{{Reference: "registry.test/app:1", Total: 1 << 53}}}
	got, err := Get(t.Context(), direct{server: &Server{Status: func(context.Context) (Status, error) { return want, nil }}})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
