// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Server answers with the results of its functions, which are called for each request,
// from any goroutine. Their errors have a gRPC code. It is an instance of a containerd plugin of type
// io.containerd.grpc.v1.
type Server struct {
	Status func(context.Context) (Status, error)
	// Explain returns errors without the credentials of the request.
	Explain func(context.Context, ExplainRequest) (Explanation, error)
}

// Register registers the server with containerd's gRPC server.
func (s *Server) Register(server *grpc.Server) error {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*statusServer)(nil),
		Methods:     []grpc.MethodDesc{method(methodGet, s.get), method(methodExplain, s.explain)},
	}, s)
	return nil
}

type statusServer interface {
	get(context.Context, *emptypb.Empty) (*structpb.Struct, error)
	explain(context.Context, *structpb.Struct) (*structpb.Struct, error)
}

// message is a pointer to a message of type T.
type message[T any] interface {
	*T
	proto.Message
}

// method describes a method that takes a message T.
func method[T any, M message[T]](name string, answer func(context.Context, M) (*structpb.Struct, error)) grpc.MethodDesc {
	handle := func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		request := M(new(T))
		if err := decode(request); err != nil {
			return nil, err
		}
		call := func(ctx context.Context, request any) (any, error) {
			m, ok := request.(M)
			if !ok {
				return nil, status.Errorf(codes.Internal, "%s gets a %T", name, request)
			}
			return answer(ctx, m)
		}
		if interceptor == nil {
			return call(ctx, request)
		}
		return interceptor(ctx, request, &grpc.UnaryServerInfo{Server: srv, FullMethod: fullName(name)}, call)
	}
	return grpc.MethodDesc{MethodName: name, Handler: handle}
}

func (s *Server) get(ctx context.Context, _ *emptypb.Empty) (*structpb.Struct, error) {
	answer, err := s.Status(ctx)
	if err != nil {
		return nil, err
	}
	return toStruct(answer)
}

// errRequest does not tell the request: it may have credentials.
var errRequest = status.Error(codes.InvalidArgument, "the request has keys or values that this version of pullwarden does not know")

// explain refuses a request with a key that it does not know: passed over, it would
// explain another one.
func (s *Server) explain(ctx context.Context, m *structpb.Struct) (*structpb.Struct, error) {
	var request ExplainRequest
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, errRequest
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&request) != nil {
		return nil, errRequest
	}
	answer, err := s.Explain(ctx, request)
	if err != nil {
		return nil, err
	}
	return toStruct(answer)
}

// toStruct returns a value as JSON has it.
func toStruct(v any) (*structpb.Struct, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	m := &structpb.Struct{}
	if err := protojson.Unmarshal(text, m); err != nil {
		return nil, err
	}
	return m, nil
}
