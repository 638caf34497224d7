// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of pullwarden-rollout.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pullwarden/pullwarden/cmd/pullwarden-rollout/internal/kube"
	"github.com/pullwarden/pullwarden/cmd/pullwarden-rollout/internal/rollout"
)

// flags are those of both verbs.
type flags struct {
	namespace, name, selector, template string
	target, maxUnavailable              string
	stages                              []string
	server, tokenFile, caFile           string // outside of a pod
	install, ready, settle, interval    time.Duration
}

// Main runs the command line until it is done or the context ends, and returns the exit code.
func Main(ctx context.Context, args []string, stderr io.Writer) int {
	f := &flags{}
	root := &cobra.Command{
		Use: "pullwarden-rollout", Short: "Put pullwarden onto the nodes of a cluster in stages",
		SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs,
	}
	root.SetArgs(args)
	root.SetErr(stderr)
	p := root.PersistentFlags()
	p.StringVar(&f.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the rollout [$POD_NAMESPACE]")
	p.StringVar(&f.name, "name", "pullwarden-rollout", "`ConfigMap` that keeps the state; it has to be there")
	p.StringVar(&f.selector, "selector", "kubernetes.io/os=linux", "label `selector` of the nodes")
	p.StringVar(&f.template, "pod-template", "", "`file` with the pod that runs on a node, without a node and a verb")
	p.StringVar(&f.target, "target", "", "`name` of what is installed: another one begins a new rollout")
	p.StringSliceVar(&f.stages, "stages", []string{"1", "10%", "100%"}, "how many `nodes` have it at the end of each stage")
	p.StringVar(&f.maxUnavailable, "max-unavailable", "1", "how many `nodes` are worked on at a time")
	p.DurationVar(&f.install, "install-timeout", 10*time.Minute, "for the pod on a node, with the pull of its image")
	p.DurationVar(&f.ready, "ready-timeout", 10*time.Minute, "for a node to be Ready again")
	p.DurationVar(&f.settle, "settle-time", 90*time.Second, "how long a node has to be Ready without a break")
	p.DurationVar(&f.interval, "interval", 5*time.Second, "between two looks at the cluster; 12 times as long while nothing is under way")
	p.StringVar(&f.server, "server", "", "`URL` of the API server, outside of a pod")
	p.StringVar(&f.tokenFile, "token-file", "", "`file` with a token for it")
	p.StringVar(&f.caFile, "ca-file", "", "`file` with its certificate authority")
	root.AddCommand(&cobra.Command{
		Use: "run", Short: "Install in stages, and go on with nodes that join later", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { //nolint:contextcheck // client-go reads its files without one
			c, err := f.controller(stderr)
			if err != nil {
				return err
			}
			c.Run(cmd.Context())
			return nil
		},
	}, &cobra.Command{
		Use: "undo", Short: "Uninstall from all nodes that have it by a rollout, and end", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { //nolint:contextcheck // client-go reads its files without one
			c, err := f.controller(stderr)
			if err != nil {
				return err
			}
			return c.Undo(cmd.Context())
		},
	})
	if err := root.ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintln(stderr, "pullwarden-rollout:", err)
		return 1
	}
	return 0
}

// controller returns the controller that the flags ask for.
func (f *flags) controller(log io.Writer) (*rollout.Controller, error) {
	options := rollout.Options{Target: f.target, InstallTimeout: f.install, ReadyTimeout: f.ready, SettleTime: f.settle, Interval: f.interval}
	if f.target == "" || f.namespace == "" {
		return nil, errors.New("--target and --namespace are required")
	}
	if f.interval <= 0 {
		return nil, fmt.Errorf("--interval %s: it has to be longer than 0s", f.interval)
	}
	if f.ready <= f.settle {
		return nil, fmt.Errorf("--ready-timeout %s: it has to be longer than --settle-time %s", f.ready, f.settle)
	}
	for _, text := range f.stages {
		stage, err := rollout.ParseAmount(text)
		if err != nil {
			return nil, fmt.Errorf("--stages: %w", err)
		}
		options.Stages = append(options.Stages, stage)
	}
	var err error
	if options.MaxUnavailable, err = rollout.ParseAmount(f.maxUnavailable); err != nil {
		return nil, fmt.Errorf("--max-unavailable: %w", err)
	}
	text, err := os.ReadFile(f.template)
	if err != nil {
		return nil, fmt.Errorf("--pod-template: %w", err)
	}
	var template corev1.Pod
	if err := yaml.UnmarshalStrict(text, &template); err != nil {
		return nil, fmt.Errorf("--pod-template %s: %w", f.template, err)
	}
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	cluster, err := kube.New(config, f.namespace, f.name, f.selector, template)
	if err != nil {
		return nil, err
	}
	return &rollout.Controller{Options: options, Ledger: cluster, Watcher: cluster, Runner: cluster, Log: log}, nil
}

// config says how the API server is reached: as a pod does, unless --server names it.
func (f *flags) config() (*rest.Config, error) {
	if f.server == "" {
		return rest.InClusterConfig()
	}
	return &rest.Config{Host: f.server, BearerTokenFile: f.tokenFile, TLSClientConfig: rest.TLSClientConfig{CAFile: f.caFile}}, nil
}
