// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"

	transferapi "github.com/containerd/containerd/api/services/transfer/v1"
	"github.com/containerd/containerd/api/types/transfer"
	"github.com/containerd/typeurl/v2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// hostConfig is how a client of the transfer service wants its hosts to be
// configured.
type hostConfig struct {
	dirs          []string // roots of trees of hosts.toml files
	defaultScheme string   // for hosts that are not configured; "" = containerd's choice
}

type hostConfigKey struct{}

// Server is containerd's transfer API. It puts the host configuration of a
// request into the context, for the Service: in the source that containerd
// makes of the request it cannot be read.
type Server struct{ transferapi.TransferServer }

// DecorateServer puts the server around the instance of containerd's own gRPC
// plugin. An instance that is no transfer API is an error.
func DecorateServer(instance any) (*Server, error) {
	inner, ok := instance.(transferapi.TransferServer)
	if !ok {
		return nil, fmt.Errorf("the transfer API is a %T", instance)
	}
	return &Server{inner}, nil
}

// Register registers the server with containerd's gRPC server.
func (s *Server) Register(server *grpc.Server) error {
	transferapi.RegisterTransferServer(server, s)
	return nil
}

// Transfer hands the request on.
func (s *Server) Transfer(ctx context.Context, r *transferapi.TransferRequest) (*emptypb.Empty, error) {
	var config hostConfig
	if source := r.GetSource(); typeurl.Is(source, &transfer.OCIRegistry{}) {
		var registry transfer.OCIRegistry
		if err := typeurl.UnmarshalTo(source, &registry); err == nil { // else containerd refuses it
			config.defaultScheme = registry.GetResolver().GetDefaultScheme()
			if dir := registry.GetResolver().GetHostDir(); dir != "" {
				config.dirs = []string{dir}
			}
		}
	}
	return s.TransferServer.Transfer(context.WithValue(ctx, hostConfigKey{}, config), r)
}
