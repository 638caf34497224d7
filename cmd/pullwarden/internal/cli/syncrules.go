// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pullwarden/pullwarden/plugin/rulesync"
)

func newSyncRules() *cobra.Command {
	var watch, probe bool
	cmd := &cobra.Command{
		Use:   "sync-rules DIR FILE",
		Short: "Copy the rules of a mounted ConfigMap to the node",
		Long: `Sync-rules makes one rule file of the rule files in a directory, such as a
mounted ConfigMap. FILE, in the config_path of the node, is exchanged by one
rename, so that the daemon sees all of the rules or none of the change. A FILE
that it has not written itself is never replaced.

Files whose names end in .test.toml are cases, as for pullwarden test; they
name the rules as ["../pullwarden.d"]. Rules in which pullwarden check finds an
error, or whose cases do not hold, are not taken: FILE stays as it was.

It exits with 0 when FILE holds these rules, else with 1.`,
		Example: `  pullwarden sync-rules --watch /rules /etc/containerd/pullwarden.d/50-cluster.toml
  pullwarden sync-rules --probe /rules /etc/containerd/pullwarden.d/50-cluster.toml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("name a directory of rule files and the file to write")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s := &rulesync.Sync{From: args[0], To: args[1], Log: cmd.ErrOrStderr()}
			switch {
			case watch && probe:
				return usageError{errors.New("--watch and --probe exclude each other")}
			case probe:
				return s.Probe()
			case watch:
				ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
				defer stop()
				s.Watch(ctx.Done())
				return nil
			}
			return s.Once()
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "go on, and copy the rules again when they change")
	cmd.Flags().BoolVar(&probe, "probe", false, "change nothing: exit with 0 if FILE holds these rules, else with 1 and the reason")
	return cmd
}
