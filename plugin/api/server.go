// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Server answers with the result of Status. It is an instance of a containerd
// plugin of type io.containerd.grpc.v1.
type Server struct {
	// Status is called for each request, from any goroutine.
	Status func() Status
}

type statusServer interface {
	get(context.Context, *emptypb.Empty) (*structpb.Struct, error)
}

// Register registers the server with containerd's gRPC server.
func (s *Server) Register(server *grpc.Server) error {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*statusServer)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: methodName, Handler: handle}},
	}, s)
	return nil
}

// handle is the grpc.MethodHandler of the one method.
func handle(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's signature
	request := &emptypb.Empty{}
	if err := decode(request); err != nil {
		return nil, err
	}
	call := func(ctx context.Context, request any) (any, error) {
		s, ok := srv.(statusServer)
		empty, isEmpty := request.(*emptypb.Empty)
		if !ok || !isEmpty {
			return nil, status.Errorf(codes.Internal, "%T gets a %T", srv, request)
		}
		return s.get(ctx, empty)
	}
	if interceptor == nil {
		return call(ctx, request)
	}
	return interceptor(ctx, request, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + serviceName + "/" + methodName}, call)
}

func (s *Server) get(context.Context, *emptypb.Empty) (*structpb.Struct, error) {
	text, err := json.Marshal(s.Status())
	if err != nil {
		return nil, err
	}
	answer := &structpb.Struct{}
	if err := protojson.Unmarshal(text, answer); err != nil {
		return nil, err
	}
	return answer, nil
}
