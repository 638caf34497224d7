// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pullwarden/pullwarden/cmd/pullwarden/internal/install"
)

// startTimeout is how long containerd and the kubelet have, by default, to be well again.
const startTimeout = 60 * time.Second

// installFlags are those of install and of uninstall.
type installFlags struct {
	output  format
	yes     bool
	root    string
	from    string // of install alone
	timeout time.Duration
}

func newInstall(g *globals) *cobra.Command {
	f := &installFlags{}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Put the containerd with pullwarden beside the node's own one",
		Long: `Install copies containerd and pullwarden to ` + install.Dir + `, has
containerd's unit run that binary by a drop-in, restarts it, and waits until
CRI answers and the kubelet is well. When they do not, it goes back to exactly
what was there. Running containers go on. Without --yes it only shows what it
has found and what it would do.

It refuses a node whose containerd is of another minor, or is not a unit of
systemd, a drop-in of somebody else that it would override, and a
configuration in which 'pullwarden check' finds errors. The node's binary and
config.toml stay as they are: the plugin does nothing until its section is
there. Upgrade by an install from the new release; the same one again does
nothing.

It exits with 0 when it is installed, or would be, and with 1 when it was
refused or has gone back.`,
		Example: `  pullwarden install
  pullwarden install --yes
  pullwarden install --root /host --yes`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runInstall(cmd, g, f) },
	}
	addInstallFlags(cmd, f)
	cmd.Flags().StringVar(&f.from, "from", "", "`folder` with the binaries containerd and pullwarden; default: that of this one")
	_ = cmd.MarkFlagDirname("from") // the flag is there
	return cmd
}

func newUninstall(g *globals) *cobra.Command {
	f := &installFlags{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Go back to the node's own containerd",
		Long: `Uninstall removes the drop-in, restarts the node's own containerd, waits until
CRI answers and the kubelet is well, and removes ` + install.Dir + `. When
they do not come up, pullwarden's binary is put back. Running containers go
on. Without --yes it only shows what it would do.

Rule files and config.toml stay as they are: stock containerd passes over the
section. Binaries that belong to a package stay, too.`,
		Example: `  pullwarden uninstall
  pullwarden uninstall --yes`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return runUninstall(cmd, g, f) },
	}
	addInstallFlags(cmd, f)
	return cmd
}

func addInstallFlags(cmd *cobra.Command, f *installFlags) {
	addOutput(cmd, &f.output)
	flags := cmd.Flags()
	flags.BoolVarP(&f.yes, "yes", "y", false, "do it; without it nothing is changed")
	flags.StringVar(&f.root, "root", "/", "root `directory` of the host, as a container has it mounted")
	flags.DurationVar(&f.timeout, "timeout", startTimeout, "how long CRI and the kubelet have to be well again")
	_ = cmd.MarkFlagDirname("root") // the flag is there
}

func runInstall(cmd *cobra.Command, g *globals, f *installFlags) error {
	folder, err := f.folder()
	if err != nil {
		return err
	}
	source := install.Open(cmd.Context(), folder)
	defer source.Close()
	return f.run(cmd, g, source, "installed", install.PlanInstall)
}

func runUninstall(cmd *cobra.Command, g *globals, f *installFlags) error {
	return f.run(cmd, g, &install.Source{}, "uninstalled", install.PlanUninstall)
}

// folder returns that of the release.
func (f *installFlags) folder() (string, error) {
	if f.from != "" {
		return filepath.Abs(f.from)
	}
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	program, err = filepath.EvalSymlinks(program)
	return filepath.Dir(program), err
}

// run looks at the machine, makes a plan, shows it, and does it where it is to.
func (f *installFlags) run(cmd *cobra.Command, g *globals, source *install.Source, done string, plan func(*install.Facts, time.Duration) install.Plan) error {
	if f.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout %v: must be positive", f.timeout)}
	}
	if os.Geteuid() != 0 {
		return errors.New("only root can see and change all of it: try sudo")
	}
	if f.root != "/" {
		if err := install.Enter(f.root); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE) // a terminal that is gone does not stop it halfway
	context.AfterFunc(ctx, stop)                   // a second signal ends the process at once
	options := install.Options{Contained: f.root != "/"}
	if cmd.Flags().Changed("config") {
		options.Config = g.config
	}
	if cmd.Flags().Changed("address") || os.Getenv("CONTAINERD_ADDRESS") != "" {
		options.Address = g.address
	}
	host := install.Host()
	if f.yes {
		unlock, err := host.Lock()
		if err != nil {
			return err
		}
		defer unlock()
	}
	facts, err := host.Look(ctx, source.Release, options)
	if err != nil {
		return err
	}
	screen := newInstallScreen(cmd.OutOrStdout(), f, facts, plan(&facts, f.timeout))
	if !screen.begin() {
		return screen.end(nil, "")
	}
	return screen.end(host.Run(ctx, screen.plan, &facts, source, f.timeout, screen.step), done)
}
