// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of pullwarden: one verb a file.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/containerd/containerd/v2/defaults"
	"github.com/spf13/cobra"
)

// Version is set when the binary is built.
var Version = "devel"

const defaultConfig = "/etc/containerd/config.toml"

// globals are the flags of all verbs.
type globals struct {
	address string // of containerd's socket
	config  string // path of containerd's config.toml
}

// Main runs the command line and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	root := New()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err != nil && err.Error() != "" {
		_, _ = io.WriteString(stderr, fitLines("pullwarden: "+err.Error()+"\n", stderr))
	}
	return codeOf(err)
}

// New returns the command line with all verbs.
func New() *cobra.Command {
	g := &globals{}
	root := &cobra.Command{
		Use:   "pullwarden",
		Short: "See, check and try out the image pull policy of a node",
		Long: `pullwarden is the companion of the containerd with pullwarden, which decides
for each image that the kubelet asks for whether the cached one will do, or
a registry is asked.`,
		Version:           Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args:              knownVerb,

		SuggestionsMinimumDistance: 2,

		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath())}
	})
	flags := root.PersistentFlags()
	flags.StringVarP(&g.address, "address", "a", envOr("CONTAINERD_ADDRESS", defaults.DefaultAddress), "containerd's `socket` [$CONTAINERD_ADDRESS]")
	flags.StringVarP(&g.config, "config", "c", defaultConfig, "containerd's `config.toml`")
	_ = root.MarkPersistentFlagFilename("config", "toml") // the flag is there
	root.AddCommand(newCheck(g), newExplain(g), newInstall(g), newStatus(g), newSyncRules(), newTest(), newUninstall(g))
	wrapUsage(root)
	return root
}

// knownVerb is asked about what follows pullwarden and is no verb.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	meant := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		meant = " (did you mean " + near[0] + "?)"
	}
	return fmt.Errorf("there is no verb %q%s", args[0], meant)
}

// noArguments, oneReference and someFiles are what verbs take.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("there is an argument too many: %q", args[0])
	}
	return nil
}

func oneReference(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one reference of an image, not %d", len(args))
	}
	return nil
}

func someFiles(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name at least one file")
	}
	return nil
}

// wrapUsage makes errors of arguments usage errors.
func wrapUsage(cmd *cobra.Command) {
	for _, verb := range append(cmd.Commands(), cmd) {
		if judge := verb.Args; judge != nil {
			verb.Args = func(cmd *cobra.Command, args []string) error {
				if err := judge(cmd, args); err != nil {
					if cmd.HasSubCommands() {
						return usageError{fmt.Errorf("%w\nSee '%s --help'", err, cmd.CommandPath())}
					}
					return usageError{fmt.Errorf("%w\nUsage: %s", err, strings.TrimSpace(cmd.UseLine()))}
				}
				return nil
			}
		}
	}
}

func envOr(name, value string) string {
	if set := os.Getenv(name); set != "" {
		return set
	}
	return value
}

// completeTOML completes the names of directories and TOML files.
func completeTOML(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"toml"}, cobra.ShellCompDirectiveFilterFileExt
}
