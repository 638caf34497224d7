// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pullwarden/pullwarden/internal/plural"
	"github.com/pullwarden/pullwarden/plugin/check"
)

// checksURL is the page with a paragraph for each identifier.
const checksURL = "https://github.com/pullwarden/pullwarden/blob/main/docs/checks.md"

func newCheck(g *globals) *cobra.Command {
	var output format
	cmd := &cobra.Command{
		Use:   "check [DIR|FILE]…",
		Short: "Find mistakes in config.toml, rule files and hosts.toml",
		Long: `Check reads the configuration as the daemon does, and shows every mistake
with its file, line, column and key, and the values that are allowed. It
warns of what is legal and surely not meant. Each finding has an identifier,
which leads to its paragraph in
` + checksURL + `.

Without arguments it checks this node: the config.toml of --config, the rule
files in config_path, and the hosts.toml files of CRI. With arguments it
checks these files, and all of those under these directories: the
configuration in a repository, for example. The section that stands below
the rules is that of --config, where it is given, or of a config.toml among
these files.

It exits with 0 without findings, with 1 after errors, and with 3 after
warnings only.`,
		Example: `  pullwarden check
  pullwarden check deploy/node/
  pullwarden check -o json /etc/containerd/pullwarden.d/10-team-a.toml`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeTOML,
		RunE: func(cmd *cobra.Command, args []string) error {
			var report check.Report
			named := cmd.Flags().Changed("config")
			switch {
			case len(args) == 0:
				report = check.Node(g.config, named)
			case named:
				report = check.Paths(args, g.config)
			default:
				report = check.Paths(args, "")
			}
			return showReport(cmd.OutOrStdout(), &report, output)
		},
	}
	addOutput(cmd, &output)
	return cmd
}

// showReport writes the findings. The error says how the verb exits.
func showReport(w io.Writer, r *check.Report, f format) error {
	if f == formatJSON {
		document := struct {
			Findings []check.Finding `json:"findings"`
		}{append([]check.Finding{}, r.Findings...)}
		if err := writeJSON(w, document); err != nil {
			return err
		}
	} else {
		writeFindings(w, r)
	}
	switch {
	case r.Count(check.Error) > 0:
		return exit(exitFailed)
	case r.Count(check.Warning) > 0:
		return exit(exitWarnings)
	}
	return nil
}

func writeFindings(w io.Writer, r *check.Report) {
	columns := width(w)
	for i := range r.Findings {
		f := &r.Findings[i]
		_, _ = fmt.Fprintf(w, "%s: %s %s\n", place(f.File, f.Line, f.Column), f.Severity, f.ID)
		text := f.Text
		if f.Key != "" {
			text = f.Key + ": " + text
		}
		_, _ = io.WriteString(w, wrap(text, columns, "    "))
	}
	if len(r.Findings) == 0 {
		_, _ = fmt.Fprintf(w, "%s, no findings\n", plural.Of(r.Files, "file"))
		return
	}
	_, _ = fmt.Fprintf(w, "\n%s, %s in %s. Each identifier is explained in\n%s\n",
		plural.Of(r.Count(check.Error), "error"), plural.Of(r.Count(check.Warning), "warning"), plural.Of(r.Files, "file"), checksURL)
}

// place returns file:line:column, which is printable, without the parts that are not known.
func place(file string, line, column int) string {
	switch file = printable(file); {
	case line == 0:
		return file
	case column == 0:
		return fmt.Sprintf("%s:%d", file, line)
	}
	return fmt.Sprintf("%s:%d:%d", file, line, column)
}
