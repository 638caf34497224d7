// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	introspection "github.com/containerd/containerd/api/services/introspection/v1"
	versionapi "github.com/containerd/containerd/api/services/version/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/criplugins"
	"github.com/pullwarden/pullwarden/internal/namespace"
)

// probeTimeout bounds one look at the daemon, or at the kubelet.
const probeTimeout = 5 * time.Second

// kubeletHealth is where a kubelet says whether it is well, by its default settings.
const kubeletHealth = "http://127.0.0.1:10248/healthz"

// socketProbe asks a daemon by its socket, as the kubelet does.
type socketProbe struct{}

// daemon returns the daemon's version and its process. It fails where CRI is not ready.
func (socketProbe) daemon(ctx context.Context, address string) (running, error) {
	ctx, cancel := context.WithTimeout(namespace.CRI(ctx), probeTimeout)
	defer cancel()
	conn, err := dial(address)
	if err != nil {
		return running{}, err
	}
	defer conn.Close()
	found := running{}
	server, err := introspection.NewIntrospectionClient(conn).Server(ctx, &emptypb.Empty{})
	if err != nil {
		return found, plain(err)
	}
	found.pid = int(server.GetPid())
	answer, err := versionapi.NewVersionClient(conn).Version(ctx, &emptypb.Empty{})
	if err != nil {
		return found, plain(err)
	}
	found.version = answer.GetVersion()
	if err := criReady(ctx, conn); err != nil {
		return found, err
	}
	containers, err := cri.NewRuntimeServiceClient(conn).ListContainers(ctx, &cri.ListContainersRequest{
		Filter: &cri.ContainerFilter{State: &cri.ContainerStateValue{State: cri.ContainerState_CONTAINER_RUNNING}},
	})
	found.containers = len(containers.GetContainers())
	return found, plain(err)
}

// criReady fails where a plugin of CRI has not started, or CRI is not ready.
func criReady(ctx context.Context, conn grpc.ClientConnInterface) error {
	plugins, err := introspection.NewIntrospectionClient(conn).Plugins(ctx, &introspection.PluginsRequest{})
	if err != nil {
		return plain(err)
	}
	if name, reason := criplugins.Failed(plugins.GetPlugins()); name != "" {
		return fmt.Errorf("the plugin %s has not started: %s", name, reason)
	}
	client := cri.NewRuntimeServiceClient(conn)
	if _, err := client.Version(ctx, &cri.VersionRequest{}); err != nil { // the kubelet's first question
		return plain(err)
	}
	answer, err := client.Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return plain(err)
	}
	for _, condition := range answer.GetStatus().GetConditions() {
		if condition.GetType() == cri.RuntimeReady && !condition.GetStatus() {
			return fmt.Errorf("CRI says that the runtime is not ready: %s %s", condition.GetReason(), condition.GetMessage())
		}
	}
	return nil
}

// kubelet fails where no kubelet says that it is well.
func (socketProbe) kubelet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, kubeletHealth, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // its status says all
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the kubelet's healthz says %s", answer.Status)
	}
	return nil
}

// dial makes a connection that is opened when it is used. The caller closes it.
func dial(address string) (*grpc.ClientConn, error) {
	path := strings.TrimPrefix(address, "unix://")
	connect := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return grpc.NewClient("passthrough:///containerd", grpc.WithContextDialer(connect), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// plain takes gRPC's own words from an error.
func plain(err error) error {
	if s, ok := status.FromError(err); ok && err != nil {
		return errors.New(s.Message())
	}
	return err
}
