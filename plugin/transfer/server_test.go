// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"net/http/httptest"
	"testing"

	transferapi "github.com/containerd/containerd/api/services/transfer/v1"
	"github.com/containerd/containerd/v2/core/streaming"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The API keeps what a client says of its hosts, which is nowhere to be read in
// the source that containerd makes of the request.
func TestServerKeepsTheHostConfiguration(t *testing.T) {
	var got hostConfig
	server, err := DecorateServer(&fakeServer{transfer: func(ctx context.Context) { got, _ = ctx.Value(hostConfigKey{}).(hostConfig) }})
	if err != nil {
		t.Fatal(err)
	}
	src, err := registry.NewOCIRegistry(t.Context(), appName, registry.WithHostDir("/etc/hosts.d"), registry.WithDefaultScheme("http"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := src.MarshalAny(t.Context(), noStreams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what   string
		source *anypb.Any
		want   hostConfig
	}{
		{"a registry", &anypb.Any{TypeUrl: packed.GetTypeUrl(), Value: packed.GetValue()}, hostConfig{dirs: []string{"/etc/hosts.d"}, defaultScheme: "http"}},
		{"broken", &anypb.Any{TypeUrl: packed.GetTypeUrl(), Value: []byte{1}}, hostConfig{}},
		{"something else", &anypb.Any{TypeUrl: "else"}, hostConfig{}},
		{"nothing", nil, hostConfig{}},
	} {
		got = hostConfig{defaultScheme: "not set"}
		if _, err := server.Transfer(t.Context(), &transferapi.TransferRequest{Source: tc.source}); err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(got, tc.want, cmp.AllowUnexported(hostConfig{})) {
			t.Errorf("%s: got %+v, want %+v", tc.what, got, tc.want)
		}
	}
	if _, err := DecorateServer(httptest.NewRecorder()); err == nil {
		t.Error("something else was accepted")
	}
}

type fakeServer struct {
	transferapi.UnimplementedTransferServer
	transfer func(context.Context)
}

func (s *fakeServer) Transfer(ctx context.Context, _ *transferapi.TransferRequest) (*emptypb.Empty, error) {
	s.transfer(ctx)
	return &emptypb.Empty{}, nil
}

type noStreams struct{}

func (noStreams) Create(context.Context, string) (streaming.Stream, error) { return nil, errGone }
