// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"fmt"
	"strings"
	"time"
)

// Pull is a request for an image.
type Pull struct {
	Caller    Caller
	Namespace Namespace // of the pod
	Name      int
	Digest    int // the content to ask for by its digest; 0: by the tag
	Policy    Policy
	MaxAge    bool  // the hint max-age: 1h
	FailOn    Class // the hint on-<class>: Fail

	unproved bool // it began without the proof that its caller has by now
}

func (p Pull) repo() int { return repoOf[p.Name] }

func (p Pull) String() string {
	ref := nameOf[p.Name]
	if p.Digest != 0 {
		ref = fmt.Sprintf("%s@%d", repo[p.repo()], p.Digest)
	}
	text := fmt.Sprintf("%v in %q pulls %s by %v", p.Caller, p.Namespace, ref, p.Policy)
	if p.MaxAge {
		text += ", max-age 1h"
	}
	if p.FailOn != None {
		text += fmt.Sprintf(", on-%v Fail", p.FailOn)
	}
	return text
}

// Kind is what a step of a history does.
type Kind int

// The kinds of steps.
const (
	DoPull Kind = iota
	DoPush
	DoTogether // pulls at the same time
	DoLeave    // pulls of which the first caller leaves
	DoMeanwhile
	DoDelete
	DoDeny
	DoAllow
	DoTrouble
	DoRestore
	DoRule
	DoRemove
	DoMirror  // is put before the registry, or taken away
	DoTag     // as ctr images tag --local
	DoImport  // as ctr images import --local
	DoRestart // right after a pull
	DoKill    // right after a pull
	DoKillIn  // in pulls
	numKinds
)

func (k Kind) String() string {
	return [numKinds]string{"pull", "push or rollback", "pulls together", "caller that leaves", "change in a pull", "deletion of a tag",
		"refusal of a caller", "admission of a caller", "outage", "restoration", "change of the rule",
		"removal", "change of hosts.toml", "local tag", "local import", "restart", "kill", "kill in a pull"}[k]
}

// Moment is a point in a pull: so long after that many requests have come.
type Moment struct {
	Requests int
	Delay    time.Duration
}

func (m Moment) String() string {
	return fmt.Sprintf("%v after request %d", m.Delay, m.Requests)
}

// Op is a step of a history. Its kind says which fields count.
type Op struct {
	Kind    Kind
	Pulls   []Pull
	Moment  Moment
	Change  *Op // in a pull
	Name    int
	From    int // the name that DoTag and DoImport take the image from
	Content int
	Caller  Caller
	Trouble Trouble
	Mirror  bool
	Rule    Rule
}

func (o Op) String() string {
	pulls := make([]string, 0, len(o.Pulls))
	for _, p := range o.Pulls {
		pulls = append(pulls, p.String())
	}
	all := strings.Join(pulls, " || ")
	switch o.Kind {
	case DoPush:
		return fmt.Sprintf("content %d is pushed as %s", o.Content, nameOf[o.Name])
	case DoDelete:
		return fmt.Sprintf("the tag %s is deleted", nameOf[o.Name])
	case DoDeny:
		return fmt.Sprintf("%v may not have %s any more", o.Caller, repo[repoOf[o.Name]])
	case DoAllow:
		return fmt.Sprintf("%v may have %s", o.Caller, repo[repoOf[o.Name]])
	case DoTrouble, DoRestore:
		return fmt.Sprintf("the registry is %v", o.Trouble)
	case DoRule:
		return fmt.Sprintf("the rule is %v", o.Rule)
	case DoRemove:
		return fmt.Sprintf("%s is removed from the node", nameOf[o.Name])
	case DoMirror:
		return fmt.Sprintf("hosts.toml has a mirror: %v", o.Mirror)
	case DoTag:
		return fmt.Sprintf("%s is tagged as %s on the node", nameOf[o.From], nameOf[o.Name])
	case DoImport:
		return fmt.Sprintf("the image of %s is imported as %s", nameOf[o.From], nameOf[o.Name])
	case DoKillIn:
		return fmt.Sprintf("%s, and the daemon is killed %v", all, o.Moment)
	case DoLeave:
		return fmt.Sprintf("%s, and the first caller leaves %v", all, o.Moment)
	case DoMeanwhile:
		return fmt.Sprintf("%s, and %v: %v", all, o.Moment, *o.Change)
	case DoRestart, DoKill:
		return fmt.Sprintf("%s, and at once a %v", all, o.Kind)
	}
	return all
}
