// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Get asks the daemon. The error is gRPC's, with the code Unimplemented where
// pullwarden is not there, is not enabled, or has not started.
func Get(ctx context.Context, conn grpc.ClientConnInterface) (s Status, err error) {
	err = invoke(ctx, conn, methodGet, &emptypb.Empty{}, &s)
	return s, err
}

// Explain asks the daemon what a pod would get. The error is gRPC's: as that of [Get],
// or with the code InvalidArgument for a request that is none, such as one with a
// reference that does not parse, or Unavailable where CRI has not started.
func Explain(ctx context.Context, conn grpc.ClientConnInterface, request ExplainRequest) (x Explanation, err error) {
	m, err := toStruct(request)
	if err != nil {
		return Explanation{}, errRequest
	}
	err = invoke(ctx, conn, methodExplain, m, &x)
	return x, err
}

// invoke calls a method, and reads its answer into the value.
func invoke(ctx context.Context, conn grpc.ClientConnInterface, method string, request proto.Message, into any) error {
	answer := &structpb.Struct{}
	if err := conn.Invoke(ctx, fullName(method), request, answer); err != nil {
		return err
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
