// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
)

// Mark is a place in the log. The zero value is its beginning.
type Mark int64

// LogFile returns the path of the daemon's log: JSON lines, over all its starts.
func (n *Node) LogFile() string { return n.Path("log") }

// Mark returns the end of the log as it is now. Without a log it is the zero
// value.
func (n *Node) Mark() Mark {
	info, err := os.Stat(n.LogFile())
	if err != nil {
		return 0
	}
	return Mark(info.Size())
}

// Log returns everything in the log since the mark; nothing before the first
// start.
func (n *Node) Log(since Mark) (string, error) {
	f, err := os.Open(n.LogFile())
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(int64(since), io.SeekStart); err != nil {
		return "", err
	}
	b, err := io.ReadAll(f)
	return string(b), err
}

// LogLines returns the lines of the log since the mark that have all of these
// words.
func (n *Node) LogLines(since Mark, words ...string) ([]string, error) {
	log, err := n.Log(since)
	var found []string
	for line := range strings.Lines(log) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found, err
}

// LogTail returns the last lines of the log, or why it cannot be read.
func (n *Node) LogTail(lines int) string {
	log, err := n.Log(0)
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(log, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
