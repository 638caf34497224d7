// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check finds mistakes in the configuration of a node before the node does:
// errors, by the daemon's own parsers, and warnings of what is legal and surely not
// meant.
package check

import (
	"cmp"
	"slices"
)

// Severity says whether the daemon would refuse what was found.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the daemon refuses it
	Warning Severity = "warning" // it is legal, and surely not meant
)

// ID identifies a kind of finding. It is the anchor of its paragraph in
// docs/checks.md, and keeps its meaning.
type ID string

// The kinds of findings: PW00 are errors, PW01 are about rules, PW02 about
// hosts.toml, PW03 about config.toml.
const (
	Unreadable  ID = "PW0001"
	BadSyntax   ID = "PW0002"
	UnknownKey  ID = "PW0003"
	BadValue    ID = "PW0004"
	Nothing     ID = "PW0005"
	MissingFile ID = "PW0006"
	BadAuditLog ID = "PW0007"

	NeverDecides    ID = "PW0101"
	MatchesNothing  ID = "PW0102"
	StaleBelowAge   ID = "PW0103"
	AnyForAll       ID = "PW0104"
	NoEffect        ID = "PW0105"
	RelaxedByTenant ID = "PW0106"
	IdentityOfAny   ID = "PW0107"
	StrictByTag     ID = "PW0130"
	DeadlineUnused  ID = "PW0140"
	PinsEverything  ID = "PW0151"
	PinsNothing     ID = "PW0152"
	RefusalIgnored  ID = "PW0160"
	PullsForChecks  ID = "PW0161"

	PlainHTTP       ID = "PW0201"
	SkipVerify      ID = "PW0202"
	UnknownHostsKey ID = "PW0203"
	RepeatedServer  ID = "PW0204"

	NotEnabled        ID = "PW0301"
	SourcesNotKept    ID = "PW0302"
	SlowDefaults      ID = "PW0303"
	DeprecatedMirrors ID = "PW0304"
	NearlyOurSection  ID = "PW0305"
	NothingEnforced   ID = "PW0306"
	NothingToLimit    ID = "PW0307"
	CRISwitchedOff    ID = "PW0308"
)

// IDs lists all kinds of findings.
func IDs() []ID {
	return []ID{
		Unreadable, BadSyntax, UnknownKey, BadValue, Nothing, MissingFile, BadAuditLog,
		NeverDecides, MatchesNothing, StaleBelowAge, AnyForAll, NoEffect, RelaxedByTenant, IdentityOfAny,
		StrictByTag, DeadlineUnused, PinsEverything, PinsNothing, RefusalIgnored, PullsForChecks,
		PlainHTTP, SkipVerify, UnknownHostsKey, RepeatedServer,
		NotEnabled, SourcesNotKept, SlowDefaults, DeprecatedMirrors, NearlyOurSection, NothingEnforced, NothingToLimit,
		CRISwitchedOff,
	}
}

// Severity is the same for all findings of a kind.
func (id ID) Severity() Severity {
	if id <= BadAuditLog {
		return Error
	}
	return Warning
}

// Finding is one mistake.
type Finding struct {
	ID       ID       `json:"id"`
	Severity Severity `json:"severity"`
	// File is the path as the caller gave it, or as it was found under that.
	File string `json:"file"`
	// Line and Column count from 1, the column in bytes; 0 = the file as a whole.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Key is the path of the key in its table of config.toml, or in the file; "" =
	// no single key.
	Key string `json:"key"`
	// Text says what is wrong, and what would be right.
	Text string `json:"text"`
}

// Report is the result of a check.
type Report struct {
	// Findings are in the order of their files and places.
	Findings []Finding
	// Files is how many files were read.
	Files int
}

// Count returns how many findings there are of a severity.
func (r *Report) Count(s Severity) (n int) {
	for i := range r.Findings {
		if r.Findings[i].Severity == s {
			n++
		}
	}
	return n
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.ID, b.ID))
	})
	r.Findings = slices.Compact(r.Findings)
}
