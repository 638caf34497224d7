// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
)

// startUp starts the daemons over and over.
func startUp(ctx context.Context, b *bench) (lines []line, err error) {
	const images = 1000
	err = b.withPair(ctx, options{}, func(p *pair) error {
		if err := p.fill(ctx, images, 1); err != nil {
			return err
		}
		costs, err := p.alternate(11, func(n *benchNode) (cost, error) { return n.timedStart(ctx) })
		if err != nil {
			return err
		}
		l := compare(fmt.Sprintf("start until CRI answers, %d images on the node", images), "≤ 50 ms more", costs)
		l.requests, l.connections = "", ""
		later := costs[ours].median().took - costs[stock].median().took
		l.ours += fmt.Sprintf(" (%+.0f ms)", later.Seconds()*1000)
		lines = append(lines, l)
		return nil
	})
	return lines, err
}

// timedStart starts the daemon again. It looks every millisecond whether CRI
// answers, more often than the daemon's own start does.
func (n *benchNode) timedStart(ctx context.Context) (cost, error) {
	if err := n.Stop(); err != nil {
		return cost{}, err
	}
	began := time.Now()
	address, started := n.Address(), make(chan error, 1)
	go func() { started <- n.Run(ctx) }()
	took, err := answersAfter(ctx, address, began)
	if err = errors.Join(err, <-started); err != nil {
		return cost{}, fmt.Errorf("start %s: %w", n.side, err)
	}
	return cost{took: took}, n.WaitForCRI(ctx)
}

// answersAfter waits until CRI answers, and returns how long that took since
// began.
func answersAfter(ctx context.Context, address string, began time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, node.StartLimit)
	defer cancel()
	var conn *grpc.ClientConn
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	answers := func() (err error) {
		if conn == nil { // gRPC would wait for a second after a refused connection
			c, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
			if err != nil {
				return err
			}
			_ = c.Close()
			if conn, err = grpc.NewClient("unix://"+address, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
				return err
			}
		}
		_, err = runtimeapi.NewImageServiceClient(conn).ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		err := answers()
		if err == nil {
			return time.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("CRI does not answer: %w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
