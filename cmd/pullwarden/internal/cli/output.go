// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"
)

// format is how a verb shows its result.
type format string

const (
	formatTable format = "table" // for people
	formatWide  format = "wide"  // the same, with nothing shortened
	formatJSON  format = "json"  // for programs; its keys are a promise
	formatYAML  format = "yaml"  // the same keys
)

// formatFlag is the flag -o of a verb.
type formatFlag struct {
	format  *format
	allowed []string
}

// addOutput adds the flag -o, which sets f: table, json, or one of more.
func addOutput(cmd *cobra.Command, f *format, more ...format) {
	*f = formatTable
	flag := formatFlag{f, []string{string(formatTable), string(formatJSON)}}
	for _, other := range more {
		flag.allowed = append(flag.allowed, string(other))
	}
	last := len(flag.allowed) - 1
	cmd.Flags().VarP(flag, "output", "o", "`format` of the output: "+strings.Join(flag.allowed[:last], ", ")+" or "+flag.allowed[last])
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { // the flag is there
		return flag.allowed, cobra.ShellCompDirectiveNoFileComp
	})
}

// String implements pflag.Value. The zero value is asked, too.
func (f formatFlag) String() string {
	if f.format == nil {
		return ""
	}
	return string(*f.format)
}

// Type implements pflag.Value.
func (f formatFlag) Type() string { return "format" }

// Set implements pflag.Value.
func (f formatFlag) Set(text string) error {
	if !slices.Contains(f.allowed, text) {
		return fmt.Errorf("allowed are %s", strings.Join(f.allowed, ", "))
	}
	*f.format = format(text)
	return nil
}

// writeJSON writes an indented document.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeYAML writes a document with the keys that JSON has.
func writeYAML(w io.Writer, v any) error {
	text, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

const (
	defaultWidth = 80
	minWidth     = 40
)

// width returns the columns of the terminal that w is: $COLUMNS, or 80 where it is
// none.
func width(w io.Writer) int {
	columns, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if f, ok := w.(*os.File); ok && err != nil {
		if n, _, sizeErr := term.GetSize(int(f.Fd())); sizeErr == nil {
			columns = n
		}
	}
	if columns <= 0 {
		columns = defaultWidth
	}
	return max(columns, minWidth)
}

// wrap breaks a text into lines of at most that many columns, each with an indent. A
// word that is longer has a line of its own.
func wrap(text string, columns int, indent string) string {
	var b strings.Builder
	line := 0
	for word := range strings.FieldsSeq(text) {
		n := len([]rune(word))
		switch {
		case line == 0:
			b.WriteString(indent)
			line = len(indent)
		case line+1+n > columns:
			b.WriteString("\n" + indent)
			line = len(indent)
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += n
	}
	if line > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// plural returns "1 file" or "2 files".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}
