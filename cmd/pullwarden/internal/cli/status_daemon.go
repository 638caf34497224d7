// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	introspection "github.com/containerd/containerd/api/services/introspection/v1"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/criplugins"
	"github.com/pullwarden/pullwarden/internal/namespace"
	"github.com/pullwarden/pullwarden/plugin/api"
	"github.com/pullwarden/pullwarden/plugin/config"
	"github.com/pullwarden/pullwarden/plugin/status"
)

const (
	// daemonTimeout bounds each look at the daemon.
	daemonTimeout = 10 * time.Second
)

// daemon is a containerd behind its socket.
type daemon struct {
	address string
	conn    *grpc.ClientConn
	client  *containerd.Client
}

// dial connects to a socket. Every error is an unreachableError. The caller closes the
// daemon.
func dial(ctx context.Context, address string) (*daemon, error) {
	address = strings.TrimPrefix(address, "unix://")
	connect := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: daemonTimeout}).DialContext(ctx, "unix", address)
	}
	probe, err := connect(ctx, "")
	if err != nil {
		return nil, unreachable(address, err)
	}
	_ = probe.Close()
	conn, err := grpc.NewClient("passthrough:///containerd", grpc.WithContextDialer(connect), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(defaults.DefaultMaxRecvMsgSize)))
	if err != nil {
		return nil, unreachable(address, err)
	}
	client, err := containerd.NewWithConn(conn)
	if err != nil {
		return nil, errors.Join(unreachable(address, err), conn.Close())
	}
	return &daemon{address, conn, client}, nil
}

func unreachable(address string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, os.ErrPermission):
		hint = ": the socket is for root"
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		hint = "\nIs containerd running, and is that its socket? --address names another one"
	}
	if s, ok := grpcstatus.FromError(err); ok {
		err = errors.New(s.Message()) // without "rpc error: code = … desc ="
	}
	return unreachableError{fmt.Errorf("containerd does not answer at %s: %w%s", address, err, hint)}
}

// Close ends the connection.
func (d *daemon) Close() error { return d.conn.Close() }

// noAnswer says why a request has no answer: nobody answers, or containerd says itself what
// keeps it from that. The error is an unreachableError.
func (d *daemon) noAnswer(err error) error {
	said := grpcstatus.Convert(errgrpc.ToGRPC(err)) // containerd's client has errors of its own
	switch said.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unimplemented:
		return unreachable(d.address, err)
	case codes.ResourceExhausted:
		return unreachableError{fmt.Errorf("containerd at %s has more to tell than one message may have: %s", d.address, said.Message())}
	}
	return unreachableError{fmt.Errorf("containerd at %s cannot answer: %s", d.address, said.Message())}
}

// report looks at the node. The error is an unreachableError where the daemon, or
// pullwarden in it, does not answer.
func (d *daemon) report(ctx context.Context) (status.Report, error) {
	ctx, cancel := context.WithTimeout(namespace.CRI(ctx), daemonTimeout)
	defer cancel()
	answer, err := api.Get(ctx, d.conn)
	if grpcstatus.Code(err) == codes.Unimplemented {
		return status.Report{}, d.whyNot(ctx)
	}
	if err != nil {
		return status.Report{}, d.noAnswer(err)
	}
	records, err := d.client.ImageService().List(ctx)
	if err != nil {
		return status.Report{}, d.noAnswer(err)
	}
	plugins, err := d.client.IntrospectionService().Plugins(ctx)
	if err != nil {
		return status.Report{}, d.noAnswer(err)
	}
	report := status.New(records, answer)
	if name, reason := criplugins.Failed(plugins.GetPlugins()); name != "" {
		report.WithoutCRI(name, reason)
	} else {
		report.PinnedInCRI(d.pinned(ctx))
	}
	return report, nil
}

// pinned returns the names of the images that CRI shows as pinned. There are none where CRI does not answer in time, or with
// more than one message may have: the records tell of most.
func (d *daemon) pinned(ctx context.Context) map[string]bool {
	names := map[string]bool{}
	listed, err := cri.NewImageServiceClient(d.conn).ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return names
	}
	for _, image := range listed.GetImages() {
		if !image.GetPinned() {
			continue
		}
		for _, name := range slices.Concat(image.GetRepoTags(), image.GetRepoDigests()) {
			names[name] = true
		}
	}
	return names
}

// explain asks what a pod would get. The error is a usageError where the daemon does not
// take the request for one, else an unreachableError.
func (d *daemon) explain(ctx context.Context, request api.ExplainRequest) (api.Explanation, error) {
	if !request.Ask { // else the directives' verify_timeout bounds it
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, daemonTimeout)
		defer cancel()
	}
	x, err := api.Explain(ctx, d.conn, request)
	switch grpcstatus.Code(err) {
	case codes.OK:
		return x, nil
	case codes.Unimplemented:
		return x, d.whyNot(ctx)
	case codes.InvalidArgument:
		return x, usageError{errors.New(grpcstatus.Convert(err).Message())}
	}
	return x, d.noAnswer(err)
}

// references lists the images of the node.
func (d *daemon) references(ctx context.Context) ([]string, error) {
	records, err := d.client.ImageService().List(namespace.CRI(ctx))
	if err != nil {
		return nil, err
	}
	report := status.New(records, api.Status{})
	var names []string
	for i := range report.Images {
		names = append(names, report.Images[i].Reference)
	}
	return names, nil
}

// whyNot says why the daemon has no pullwarden that answers.
func (d *daemon) whyNot(ctx context.Context) error {
	resp, err := d.client.IntrospectionService().Plugins(ctx)
	if err != nil {
		return d.noAnswer(err)
	}
	var ours *introspection.Plugin
	for _, p := range resp.GetPlugins() {
		if p.GetType()+"."+p.GetID() == config.Plugin {
			ours = p
		}
	}
	switch {
	case ours == nil:
		err = fmt.Errorf("the containerd at %s has no pullwarden in it: it is a stock one, or disabled_plugins names pullwarden", d.address)
	case ours.GetExports()[api.ExportEnabled] == "false":
		err = fmt.Errorf("pullwarden is not enabled in the containerd at %s, which pulls as stock containerd does: set enabled = true in [plugins.%q] (pullwarden check finds a slip in its name)", d.address, config.Plugin)
	case ours.GetInitErr() != nil:
		err = fmt.Errorf("pullwarden has not started in the containerd at %s, and CRI has not: %s", d.address, ours.GetInitErr().GetMessage())
	default:
		err = fmt.Errorf("pullwarden in the containerd at %s is another version, which does not answer this", d.address)
	}
	return unreachableError{err}
}
