// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"strings"
)

// log returns everything that the daemon has written, over all its starts.
func (d *daemon) log() string {
	log, err := d.process.Log()
	if err != nil {
		d.t.Errorf("read the daemon's log: %v", err)
	}
	return log
}

// mark returns the place in the log up to which logged then does not look.
func (d *daemon) mark() int { return len(d.log()) }

// logged returns the lines after mark that have all of these words.
func (d *daemon) logged(mark int, words ...string) []string {
	var found []string
lines:
	for line := range strings.Lines(d.log()[mark:]) {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		found = append(found, strings.TrimSpace(line))
	}
	return found
}

// entries returns those of the lines of logged that are JSON, decoded.
func (d *daemon) entries(mark int, words ...string) []map[string]any {
	var all []map[string]any
	for _, line := range d.logged(mark, words...) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil {
			all = append(all, entry)
		}
	}
	return all
}

// around returns the part of s after word, some lines of it.
func around(s, word string) string {
	_, after, _ := strings.Cut(s, word)
	lines := strings.SplitAfter(word+after, "\n")
	return strings.Join(lines[:min(60, len(lines))], "")
}
