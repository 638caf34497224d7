// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"io"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
)

const (
	defaultConfig  = "/etc/containerd/config.toml"
	defaultAddress = defaults.DefaultAddress
	grpcServer     = "io.containerd.server.v1.grpc" // has the address since version 4 of config.toml
)

// addressIn returns the socket that a config.toml, or what it imports, names; "" for none.
func addressIn(file string) string {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	loaded := &config.Config{}
	if err := config.LoadConfig(log.WithLogger(context.Background(), logrus.NewEntry(logger)), file, loaded); err != nil {
		return "" // what is wrong with it is told by the check
	}
	if server, ok := loaded.Plugins[grpcServer].(map[string]any); ok {
		if address, ok := server["address"].(string); ok && address != "" {
			return address
		}
	}
	return loaded.GRPC.Address //nolint:staticcheck // older files have it there
}
