// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pullwarden/pullwarden/plugin/api"
)

// completeTimeout bounds how long a shell waits for a completion.
const completeTimeout = 2 * time.Second

// explainFlags are those of the verb.
type explainFlags struct {
	output    format
	namespace string
	runtime   string
	hints     []string
	creds     credentialFlags
	ask       bool
	exitCode  bool
}

func newExplain(g *globals) *cobra.Command {
	f := &explainFlags{}
	cmd := &cobra.Command{
		Use:   "explain REF",
		Short: "Show what a pod would get for an image, and why",
		Long: `Explain asks the daemon what it would decide now for a pod's image, and shows
the decision in one sentence, the rule that matches and those before it that
do not, the directives that apply and what set each, the hosts in their order
and what is known of them, and what the node has of the image. The daemon
decides as for a pod, and changes nothing.

No registry is asked unless --ask is given: where the decision depends on
one, the sentence says what would follow from each of its answers. With
--ask the check is made as for a pod. Nothing is pulled, and no proof ends by
a refusal, but a host that fails is suspected, and probed, as after a pod's
request. The node's image verifiers are asked as before each pull.

Credentials are those of a pull secret. A password is never an argument: it
is asked for on the terminal, read from standard input, or from a file.

It exits with 0. With --exit-code it exits with 0 if the pod gets an image,
with 1 if it fails, and with 3 if that depends on a registry that was not
asked, or, under mode = "Observe", on containerd's own pull. It exits with
2 when pullwarden in the daemon does not answer.`,
		Example: `  pullwarden explain registry.example.com/team-a/app:1 -n team-a-prod
  pullwarden explain nginx:1.27 --hint policy=Always --ask
  pullwarden explain registry.example.com/private:1 --creds alice --ask
  pullwarden explain nginx:1.27 --exit-code -o json | jq -r .sentence`,
		Args:              oneReference,
		ValidArgsFunction: g.completeReference,
		RunE:              func(cmd *cobra.Command, args []string) error { return runExplain(cmd, g, f, args[0]) },
	}
	addOutput(cmd, &f.output, formatYAML)
	flags := cmd.Flags()
	flags.StringVarP(&f.namespace, "namespace", "n", "", "the pod's `namespace`; without it no rule with namespaces matches")
	flags.StringVar(&f.runtime, "runtime-handler", "", "the pod's runtime `handler`, by which CRI picks the snapshotter")
	flags.StringArrayVar(&f.hints, "hint", nil, "an annotation of the pod, `key=value`; pullwarden.io/ may be left out")
	f.creds.add(flags)
	flags.BoolVar(&f.ask, "ask", false, "ask the registry, as for a pod")
	flags.BoolVar(&f.exitCode, "exit-code", false, "exit with 1 if the pod fails, with 3 if it depends")
	return cmd
}

func runExplain(cmd *cobra.Command, g *globals, f *explainFlags, reference string) error {
	annotations, err := annotationsOf(f.hints)
	if err != nil {
		return usageError{err}
	}
	auth, err := f.creds.read(cmd.InOrStdin(), cmd.ErrOrStderr(), reference)
	if err != nil {
		return usageError{err}
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d, err := dial(ctx, g.address)
	if err != nil {
		return err
	}
	defer d.Close()
	x, err := d.explain(ctx, api.ExplainRequest{
		Reference: reference, Namespace: f.namespace, RuntimeHandler: f.runtime, Annotations: annotations, Auth: auth, Ask: f.ask,
	})
	if err != nil {
		return err
	}
	if err := showExplanation(cmd.OutOrStdout(), &x, f.output); err != nil {
		return err
	}
	switch {
	case !f.exitCode:
	case x.Outcome == "", observed(&x):
		return exit(exitDepends)
	case x.Outcome == outcomeFailed:
		return exit(exitFailed)
	}
	return nil
}

// The directive by which decisions are only told.
const (
	modeKey     = "mode"
	modeObserve = "Observe"
)

// observed reports whether the decision is only told: what the pod gets depends on containerd's own pull.
func observed(x *api.Explanation) bool {
	return slices.ContainsFunc(x.Directives, func(d api.Directive) bool {
		return d.Name == modeKey && d.Value == modeObserve
	})
}

// annotationsOf reads hints. A key without a slash is one of pullwarden's.
func annotationsOf(hints []string) (map[string]string, error) {
	all := map[string]string{}
	for _, hint := range hints {
		key, value, ok := strings.Cut(hint, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--hint %s: write it as key=value", hint)
		}
		if !strings.Contains(key, "/") {
			key = "pullwarden.io/" + key
		}
		if _, ok := all[key]; ok {
			return nil, fmt.Errorf("--hint %s: the key is there twice", hint)
		}
		all[key] = value
	}
	return all, nil
}

// completeReference completes the references of the node's images, where the daemon
// answers soon.
func (g *globals) completeReference(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	d, err := dial(ctx, g.address)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer d.Close()
	names, _ := d.references(ctx) // none where it does not answer
	return names, cobra.ShellCompDirectiveNoFileComp
}
