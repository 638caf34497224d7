// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"fmt"
	"strings"

	nodes "github.com/pullwarden/pullwarden/integration/node"
)

// Freshness are the directives of the rule that keep images fresh. But for Manifest they change
// nothing of what pulls bring here: the kubelet's questions are not asked, no pull takes as
// long as the deadline, and nothing collects images.
type Freshness struct {
	Starts   bool // govern = "Starts"
	Deadline bool // pull_deadline = "10m": pulls belong to the engine
	Pin      bool // pin = true
	Manifest bool // check_with = "Manifest"
	Budget   bool // checks_per_minute = 2
}

func (f Freshness) toml() (text string) {
	for line, set := range map[string]bool{
		"govern = \"Starts\"\n": f.Starts, "pull_deadline = \"10m\"\n": f.Deadline, "pin = true\n": f.Pin, "check_with = \"Manifest\"\n": f.Manifest,
		"checks_per_minute = 2\n": f.Budget,
	} {
		if set {
			text += line
		}
	}
	return text
}

func (f Freshness) String() string {
	return strings.ReplaceAll(strings.TrimSpace(f.toml()), "\n", ", ")
}

// Reader is the host that a check has read the manifest of, last: the registry where one has.
type Reader int

// The readers. Nobody is one where no check has read it.
const (
	Unread Reader = iota
	ReadOrigin
	ReadMirror
)

// reads is what a check by the giver has read under the rule, where one before has read
// that.
func (r Rule) reads(by Giver, before Reader) Reader {
	if !r.Fresh.Manifest || before == ReadOrigin {
		return before
	}
	return Reader(by) + ReadOrigin
}

// readerOf is what a record tells of the last check that has read the manifest.
func readerOf(r *registry, labels map[string]string) (Reader, error) {
	by, err := r.saidBy(labels, "manifest-read")
	if by == Unchecked {
		return Unread, err
	}
	return Reader(by) + ReadOrigin, err
}

// earlier ends the label beside that of a host's word.
const earlier = ".earlier"

// saidBy is the host of the word that a record has under a label, or beside that: the registry where
// one is its. Beside a word of its own there must be none.
func (r *registry) saidBy(all map[string]string, label string) (Giver, error) {
	last, before := r.wordBy(all, label), r.wordBy(all, label+earlier)
	if before != Unchecked && (last == Origin || before == last) {
		return last, fmt.Errorf("its label %s stands beside another word of that host, or of the registry", label+earlier)
	}
	return min(last, before), nil
}

// wordBy is the host of the word that a label has; Unchecked for none.
func (r *registry) wordBy(all map[string]string, label string) Giver {
	_, host, _ := strings.Cut(all[nodes.LabelPrefix+label], " ")
	if label == "verified-at" {
		host = all[nodes.LabelPrefix+"verified-by"]
	}
	switch host {
	case "":
		return Unchecked
	case r.mirror.Host():
		return Mirror
	}
	return Origin
}

// overBudget is a pull for which the node may have made its checks of the minute. It is
// asked for all the same where the cached image would not do after its 429, or nobody knows
// whose it is, and speaks for nobody else.
func (w World) overBudget(now Registry, p Pull) (all []Branch) {
	if !now.Rule.Fresh.Budget || w.grant(now, p) != given {
		return nil
	}
	b := w.failed(now, p, said{class: RateLimited}, false)
	if b.Outcome == Failed {
		return nil
	}
	b.After.Blamed, b.Lost.Blamed = w.Blamed, w.Blamed
	return []Branch{b}
}

// waits reports whether a pull of a changed image has a deadline, after which the cached
// one would do: that one is made complete before.
func (w World) waits(now Registry, p Pull, by said) bool {
	return now.Rule.Fresh.Deadline && now.policy(p) == IfDigestChanged && p.Digest == 0 && w.content(p) != 0 && w.grantAfter(now, p, by) == given
}
