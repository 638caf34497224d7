// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pullwarden/pullwarden/plugin/status"
)

// watchInterval is the time between two looks of --watch.
const watchInterval = 2 * time.Second

// statusFlags are those of the verb.
type statusFlags struct {
	output format
	filter status.Filter
	quiet  bool
	watch  bool
}

func newStatus(g *globals) *cobra.Command {
	f := &statusFlags{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether a node is well, and what it knows of its images",
		Long: `Status asks the daemon and shows first whether all is well: the rules in
force, the hosts in trouble, the images that were used although their check
failed or found another digest, the pulls in the background, and what is not
enforced. A table of the node's images follows, with those first that need
attention: from which host each came, how long ago it was last checked and by
whom, how many callers have proved access, and whether it is kept from the
kubelet's garbage collection.

It exits with 0 when the node is healthy, with 1 when it is degraded, and
with 2 when pullwarden in the daemon does not answer. Filters pick images;
they change neither what is healthy nor the exit code.`,
		Example: `  pullwarden status
  pullwarden status --stale -q
  pullwarden status --source mirror.example.com:5000 --older-than 24h
  pullwarden status -o json | jq '.problems'`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runStatus(cmd, g, f) },
	}
	addOutput(cmd, &f.output, formatWide, formatYAML)
	flags := cmd.Flags()
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show the references of images only")
	flags.BoolVar(&f.filter.Stale, "stale", false, "only images that were used although their check failed or found another digest")
	flags.StringVar(&f.filter.Source, "source", "", "only images that this `host` has served")
	flags.DurationVar(&f.filter.OlderThan, "older-than", 0, "only images that were last checked longer ago, or never")
	flags.BoolVarP(&f.watch, "watch", "w", false, "look again every two seconds, and show the pulls under way")
	return cmd
}

// noImages is what the table says without a row.
func (f *statusFlags) noImages() string {
	if f.filter == (status.Filter{}) {
		return "no images"
	}
	return "no images match the filters"
}

func runStatus(cmd *cobra.Command, g *globals, f *statusFlags) error {
	if f.quiet && cmd.Flags().Changed("output") {
		return usageError{errors.New("-q and -o exclude each other")}
	}
	if f.filter.OlderThan < 0 {
		return usageError{fmt.Errorf("--older-than %v: must not be negative", f.filter.OlderThan)}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d, err := dial(ctx, g.address)
	if err != nil {
		return err
	}
	defer d.Close()
	screen := &statusScreen{w: cmd.OutOrStdout(), flags: f}
	if !f.watch {
		return screen.look(ctx, d)
	}
	return screen.watch(ctx, d)
}

// statusScreen shows one report after the other.
type statusScreen struct {
	w     io.Writer
	flags *statusFlags
	shown int                  // reports
	pulls map[string]pullBytes // of the last report, by reference and begin
}

// look shows the node once. The error says how the verb exits.
func (s *statusScreen) look(ctx context.Context, d *daemon) error {
	report, err := d.report(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	if err := s.show(report.Only(s.flags.filter, now), now); err != nil {
		return err
	}
	s.shown++
	if !report.Healthy {
		return exit(exitFailed)
	}
	return nil
}

// watch looks until it is interrupted, or the node does not answer any more. It ends
// as the last look did.
func (s *statusScreen) watch(ctx context.Context, d *daemon) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var last error
	for {
		err := s.look(ctx, d)
		if ctx.Err() != nil {
			return last
		}
		if last = err; err != nil && codeOf(err) != exitFailed {
			return err
		}
		select {
		case <-ctx.Done():
			return last
		case <-tick.C:
		}
	}
}

func (s *statusScreen) show(r status.Report, now time.Time) error {
	switch {
	case s.flags.quiet:
		for i := range r.Images {
			if _, err := fmt.Fprintln(s.w, printable(r.Images[i].Reference)); err != nil {
				return err
			}
		}
		return nil
	case s.flags.output == formatJSON:
		return writeJSON(s.w, r)
	case s.flags.output == formatYAML:
		if s.shown > 0 {
			_, _ = fmt.Fprintln(s.w, "---")
		}
		return writeYAML(s.w, r)
	}
	return s.table(r, now)
}
