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
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"github.com/pullwarden/pullwarden/internal/plural"
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

// height returns the rows of the terminal that w is; 0 where it is none.
func height(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	_, rows, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return rows
}

// cutLines keeps the first lines of a text, as many as a terminal of that size shows, and
// says how many are left out.
func cutLines(text string, columns, rows int) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	used, fits := 0, 0 // fits is how many lines leave a row for the last word
	for i, line := range lines {
		used += max(1, (utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))+columns-1)/columns)
		if used < rows {
			fits = i + 1
		}
	}
	if used <= rows {
		return text
	}
	return strings.Join(lines[:fits], "") + fmt.Sprintf("%s and %s\n", ellipsis, plural.Of(len(lines)-fits, "more line"))
}

// fitLines wraps the lines of a text where w is a terminal. Elsewhere they stay whole,
// for programs that look for words in them.
func fitLines(text string, w io.Writer) string {
	if height(w) == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(wrap(line, width(w), ""))
	}
	return b.String()
}

// printable returns a text on one line, with the escapes of Go for what cannot be printed. Whoever
// names files and writes into them, as for a run in CI, makes up no lines, and tells the
// terminal nothing.
func printable(text string) string {
	var b strings.Builder
	for text != "" {
		r, n := utf8.DecodeRuneInString(text)
		shown := text[:n]
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			shown = strconv.Quote(shown)
			shown = shown[1 : len(shown)-1]
		}
		b.WriteString(shown)
		text = text[n:]
	}
	return b.String()
}

// wrap breaks a text into lines of at most that many columns, each with an indent, of
// what is printable. A word that is longer has a line of its own.
func wrap(text string, columns int, indent string) string {
	var b strings.Builder
	line := 0
	for word := range strings.FieldsSeq(text) {
		word = printable(word)
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
