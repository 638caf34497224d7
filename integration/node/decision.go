// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Decision is one decision of pullwarden, as its line in the daemon's log tells
// it. Fields that the line does not have are empty.
type Decision struct {
	Level       string `json:"level"`
	Message     string `json:"msg"`
	Image       string `json:"image"` // the normalised reference
	Namespace   string `json:"pod_namespace"`
	Pod         string `json:"pod"`
	Policy      string `json:"policy"`
	Outcome     string `json:"outcome"`
	Reason      string `json:"reason"`
	Class       string `json:"class"` // of the registry's failure; the line has none where it is the reason
	DecidedBy   string `json:"decided_by"`
	Access      string `json:"access"`
	Digest      string `json:"digest"`
	VerifiedBy  string `json:"verified_by"`
	LastChecked string `json:"last_checked"`
	Tried       string `json:"tried"`
	Coalesced   bool   `json:"coalesced"`
	Observed    string `json:"observed"`   // the mode and where it comes from; "" = the decision took effect
	StockPull   string `json:"stock_pull"` // how containerd's own pull ended, where observed
	NotHints    string `json:"not_hints"`  // annotations that are nearly hints
	Error       string `json:"error"`
	Elapsed     string `json:"elapsed"` // as time.ParseDuration reads it
	Awaited     string `json:"awaited"` // the digest that is pulled in the background
	// Background says that it is no decision, but the end of a pull that no request
	// waited for any more.
	Background bool `json:"background"`
}

// Decisions returns the decisions about an image since the mark, in order; about
// all images for "".
func (n *Node) Decisions(since Mark, image string) ([]Decision, error) {
	return n.outcomes(since, image, false)
}

// BackgroundPulls returns the ends of pulls in the background since the mark.
func (n *Node) BackgroundPulls(since Mark, image string) ([]Decision, error) {
	return n.outcomes(since, image, true)
}

func (n *Node) outcomes(since Mark, image string, background bool) ([]Decision, error) {
	lines, err := n.LogLines(since, "pullwarden: ", image)
	var all []Decision
	for _, line := range lines {
		var d Decision // not every line of a daemon is JSON
		if json.Unmarshal([]byte(line), &d) == nil && d.Outcome != "" && d.Background == background && (image == "" || d.Image == image) {
			if _, err := failure.Parse(d.Reason); err == nil && d.Class == "" {
				d.Class = d.Reason
			}
			all = append(all, d)
		}
	}
	return all, err
}

// Decision returns the one decision about an image since the mark. It is an
// error when there is none, or more than one.
func (n *Node) Decision(since Mark, image string) (Decision, error) {
	all, err := n.Decisions(since, image)
	if err != nil {
		return Decision{}, err
	}
	if len(all) != 1 {
		return Decision{}, fmt.Errorf("%d decisions about %s are in the log, want 1: %v", len(all), image, all)
	}
	return all[0], nil
}
