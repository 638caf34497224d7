// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit writes one JSON line for each decision into a file, for those who
// must tell later which image a pod got, and why.
package audit

import (
	"strings"
	"time"

	"github.com/pullwarden/pullwarden/plugin/engine"
)

// maxError bounds, in bytes, the text of an error in a line.
const maxError = 4096

// Line is one decision. Its keys are a promise; more may be added. It holds no
// credentials.
type Line struct {
	Time      time.Time `json:"time"`      // when it was decided, UTC
	Namespace string    `json:"namespace"` // of the pod; "" = the request did not say
	Pod       string    `json:"pod"`       // its name; "" = the request did not say
	Image     string    `json:"image"`     // the normalised reference
	Policy    string    `json:"policy"`
	// DecidedBy are the directives that took part, each with its value and the level
	// that set it, in the order of their use: "policy=Always(default), …".
	DecidedBy string `json:"decidedBy"`
	Outcome   string `json:"outcome"`
	// Background says that this is the end of a pull that no request waited for any more;
	// each request has a line of its own. Caller, namespace and pod are of the first.
	Background bool `json:"background,omitempty"`
	// Observed says that this is what would have been decided: the mode is Observe.
	Observed bool   `json:"observed,omitempty"`
	Reason   string `json:"reason"`
	Class    string `json:"class"`  // why the registry failed; "" = it did not
	Source   string `json:"source"` // the reference as the host that served the manifest knows it; "" = nobody knows
	Before   string `json:"before"` // the digest that the name had on the node; "" = none
	Digest   string `json:"digest"` // of the image that the pod got, or else the registry's
	// Awaited is the registry's digest that is pulled in the background, while the pod
	// starts from the cached image.
	Awaited string `json:"awaited,omitempty"`
	// Caller is the fingerprint of the credentials, as labels have it: keyed, so that
	// nobody can try passwords on it. "" = they cannot be told apart.
	Caller    string  `json:"caller"`
	ElapsedMs float64 `json:"elapsedMs"`       // of the whole request
	Error     string  `json:"error,omitempty"` // that the kubelet got, for Failed
}

// lineOf returns the line of an outcome that came at that time.
func lineOf(o engine.Outcome, at time.Time) Line {
	l := Line{
		Time:       at.UTC(),
		Namespace:  o.Namespace,
		Pod:        o.Pod,
		Image:      o.Name,
		Policy:     o.Directives.Policy.String(),
		DecidedBy:  o.DecidedBy(),
		Outcome:    string(o.Kind),
		Background: o.Background,
		Observed:   o.Observed,
		Reason:     string(o.Reason),
		Class:      string(o.Class),
		Source:     o.Source,
		Before:     o.Before.String(),
		Digest:     o.Digest.String(),
		Awaited:    o.Awaited.String(),
		Caller:     string(o.Caller),
		ElapsedMs:  float64(o.Elapsed.Microseconds()) / 1000,
	}
	if o.Err != nil {
		l.Error = o.Err.Error()
		if len(l.Error) > maxError {
			l.Error = strings.ToValidUTF8(l.Error[:maxError], "") + "..."
		}
	}
	return l
}
