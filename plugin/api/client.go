// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Get asks the daemon. The error is gRPC's, with the code Unimplemented where
// pullwarden is not there, is not enabled, or has not started.
func Get(ctx context.Context, conn grpc.ClientConnInterface) (Status, error) {
	answer := &structpb.Struct{}
	if err := conn.Invoke(ctx, "/"+serviceName+"/"+methodName, &emptypb.Empty{}, answer); err != nil {
		return Status{}, err
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		return Status{}, err
	}
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return Status{}, err
	}
	return s, nil
}
