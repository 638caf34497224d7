// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pullwarden/pullwarden/internal/plural"
	"github.com/pullwarden/pullwarden/plugin/ruletest"
)

func newTest() *cobra.Command {
	var output format
	cmd := &cobra.Command{
		Use:   "test FILE…",
		Short: "Test rules with cases: an image and what it is to get",
		Long: `Test runs the cases of TOML files against rule files. A case names an image,
and may name the pod's namespace and hints, and a failure of the registry. It
expects directives, the rule that decides, an error about a hint, or the
outcome after the failure. The daemon's own matching and decision answer;
nothing is asked of a daemon or a registry.

It exits with 0 if all cases hold, else with 1.`,
		Example: `  cat pullwarden.tests/team-a.toml
  rules = ["../pullwarden.d"]

  [[case]]
  name      = "production survives an outage of the registry"
  image     = "registry.example.com/team-a/app:1"
  namespace = "team-a-prod"
  failure   = "unreachable"
  [case.expect]
  rule    = "10-team-a.toml#1"
  policy  = "IfDigestChanged"
  outcome = "UsedCached"

  pullwarden test pullwarden.tests/*.toml`,
		Args:              someFiles,
		ValidArgsFunction: completeTOML,
		RunE: func(cmd *cobra.Command, args []string) error {
			results, ok := runCases(cmd.ErrOrStderr(), args)
			failed := 0
			for _, r := range results {
				if len(r.Differences) > 0 {
					failed++
				}
			}
			if err := showResults(cmd.OutOrStdout(), results, failed, output); err != nil {
				return err
			}
			if failed > 0 || !ok {
				return exit(exitFailed)
			}
			return nil
		},
	}
	addOutput(cmd, &output)
	return cmd
}

// runCases runs the cases of all files. A file with a mistake, or whose rules have
// one, is reported on stderr; ok is false then.
func runCases(stderr io.Writer, files []string) (results []ruletest.Result, ok bool) {
	results, ok = []ruletest.Result{}, true // an array in JSON, also without any
	for _, file := range files {
		r, err := ruletest.Run(file)
		if err != nil {
			writeErrors(stderr, err)
			ok = false
		}
		results = append(results, r...)
	}
	return results, ok
}

// writeErrors writes an error, or each of those that it joins, as one line.
func writeErrors(stderr io.Writer, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, inner := range joined.Unwrap() {
			writeErrors(stderr, inner)
		}
		return
	}
	_, _ = io.WriteString(stderr, fitLines(printable(err.Error())+"\n", stderr))
}

func showResults(w io.Writer, results []ruletest.Result, failed int, f format) error {
	if f == formatJSON {
		return writeJSON(w, struct {
			Passed int               `json:"passed"`
			Failed int               `json:"failed"`
			Cases  []ruletest.Result `json:"cases"`
		}{len(results) - failed, failed, results})
	}
	for _, r := range results {
		verdict := "ok  "
		if len(r.Differences) > 0 {
			verdict = "FAIL"
		}
		_, _ = fmt.Fprintf(w, "%s  %s: %s\n", verdict, place(r.File, r.Line, 0), printable(caseName(r)))
		writeDifferences(w, r.Differences)
	}
	_, err := fmt.Fprintf(w, "%s, %d failed\n", plural.Of(len(results), "case"), failed)
	return err
}

// caseName is the name of a case, or else what it is about.
func caseName(r ruletest.Result) string {
	switch {
	case r.Name != "":
		return r.Name
	case r.Namespace != "":
		return r.Image + " in " + r.Namespace
	}
	return r.Image
}

func writeDifferences(w io.Writer, differences []ruletest.Difference) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, d := range differences {
		if d.Key == "error" { // a sentence, which is no column
			_ = t.Flush()
			_, _ = fmt.Fprintf(w, "      error  expected %s\n", orNone(d.Want))
			_, _ = fmt.Fprint(w, wrap("got "+orNone(d.Got), width(w), strings.Repeat(" ", 13)))
			continue
		}
		origin := ""
		if d.Origin != "" {
			origin = " (" + d.Origin + ")"
		}
		_, _ = fmt.Fprintf(t, "      %s\texpected %s\tgot %s%s\n", d.Key, orNone(d.Want), orNone(d.Got), origin)
	}
	_ = t.Flush()
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return printable(text)
}
