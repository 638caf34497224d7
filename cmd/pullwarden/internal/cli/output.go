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
	"golang.org/x/sys/unix"
)

// format is how a verb shows its result.
type format string

const (
	formatTable format = "table" // for people
	formatJSON  format = "json"  // for programs; its keys are a promise
)

var formats = []format{formatTable, formatJSON}

// addOutput adds the flag -o, which sets f.
func addOutput(cmd *cobra.Command, f *format) {
	*f = formatTable
	cmd.Flags().VarP(f, "output", "o", "`format` of the output: table or json")
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { // the flag is there
		return []string{string(formatTable), string(formatJSON)}, cobra.ShellCompDirectiveNoFileComp
	})
}

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *format) Set(text string) error {
	if !slices.Contains(formats, format(text)) {
		return fmt.Errorf("allowed are %s, %s", formatTable, formatJSON)
	}
	*f = format(text)
	return nil
}

// writeJSON writes an indented document.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
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
		if size, sizeErr := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); sizeErr == nil {
			columns = int(size.Col)
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
