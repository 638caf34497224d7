// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import "time"

// ExplainRequest asks what a pod would get.
type ExplainRequest struct {
	// Reference is the image's, as a pod has it.
	Reference string `json:"reference"`
	// Namespace is the pod's; "" = not known.
	Namespace string `json:"namespace,omitempty"`
	// RuntimeHandler is the pod's; "" = the default.
	RuntimeHandler string `json:"runtimeHandler,omitempty"`
	// Annotations are the pod's.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Auth is what the kubelet takes from a pull secret; nil = there is none.
	Auth *Auth `json:"auth,omitempty"`
	// Ask lets the daemon ask registries.
	Ask bool `json:"ask,omitempty"`
}

// Auth are the credentials of a CRI request. It formats without them.
type Auth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	IdentityToken string `json:"identityToken,omitempty"`
}

// String does not tell the credentials.
func (Auth) String() string { return "credentials" }

// GoString does not tell the credentials.
func (Auth) GoString() string { return "credentials" }

// Explanation is the daemon's answer. Its keys as JSON are a promise, which
// pullwarden explain shows.
type Explanation struct {
	Reference string `json:"reference"` // normalised
	Namespace string `json:"namespace"`
	// Rule is the one that matches; nil = none does.
	Rule *Rule `json:"rule"`
	// Passed are the rules that were tried before and do not match, the nearest first.
	Passed     []PassedRule `json:"passed"`
	Directives []Directive  `json:"directives"`
	Hosts      []HostState  `json:"hosts"` // in their order
	// HostsError says why the hosts are not known.
	HostsError string `json:"hostsError,omitempty"`
	// Local is the image that the node has; nil = none.
	Local *Local `json:"local"`
	// Caller is the fingerprint of the caller's credentials, as labels have it; "" =
	// they cannot be told apart from others.
	Caller string `json:"caller"`
	// Asked says that a registry was asked, or would have been.
	Asked bool `json:"asked"`
	// Attempts are the hosts that failed.
	Attempts []Attempt `json:"attempts"`
	// Outcome is "" where it depends on a registry that was not asked.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	Class   string `json:"class,omitempty"` // of the registry's failure
	// Digest is that of the image that the pod gets, or else the registry's.
	Digest string `json:"digest,omitempty"`
	// VerifiedBy is the host that answered.
	VerifiedBy string `json:"verifiedBy,omitempty"`
	// Forecast says on what the outcome depends; nil = on nothing.
	Forecast *Forecast `json:"forecast,omitempty"`
	// Error is what the kubelet is told of a failure.
	Error string `json:"error,omitempty"`
	// Sentence is the decision. Its wording may change.
	Sentence string `json:"sentence"`
}

// Rule is the place of a rule.
type Rule struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Index int    `json:"index"` // in its file, counted from 1
}

// PassedRule is a rule that does not match.
type PassedRule struct {
	Rule
	// Mismatch is "images" or "namespaces".
	Mismatch string `json:"mismatch"`
}

// Directive is one of those in force.
type Directive struct {
	Name   string `json:"name"` // as a rule spells it
	Value  string `json:"value"`
	Origin string `json:"origin"` // default, section, hint, or the rule as log lines name it
	Used   bool   `json:"used"`   // it took part in the decision
}

// HostState is one of the hosts for a reference.
type HostState struct {
	Host   string `json:"host"` // host[:port]
	Origin bool   `json:"origin"`
	// State is one of the constants below: the first that holds.
	State string `json:"state"`
	// Capabilities are those of hosts.toml that count: resolve, pull.
	Capabilities []string  `json:"capabilities"`
	Class        string    `json:"class,omitempty"` // of the trouble
	Since        time.Time `json:"since,omitzero"`
	Until        time.Time `json:"until,omitzero"`
}

// The states of hosts.
const (
	HostLeftOut     = "left_out"     // allowed_sources does not list it
	HostContentOnly = "content_only" // it is not asked for the digest of this reference
	HostInTrouble   = "in_trouble"   // a probe found so: it is asked only if there is nothing else to use
	HostAvoided     = "avoided"      // it failed this repository and caller lately, who leave it alone until a time
	HostSuspected   = "suspected"    // a request has failed; a probe has not decided yet
	HostAsked       = "asked"        // it is asked, unless one before it answers
)

// Local is the node's image and its record.
type Local struct {
	Digest string `json:"digest"`
	// Access says whether and why the caller may reuse it: proved, open, any or
	// unproved; "" where nobody may.
	Access   string `json:"access"`
	Runnable bool   `json:"runnable"`
	// ForeignSource says that it came from hosts that are not allowed, or not known.
	ForeignSource bool `json:"foreignSource"`
	// Remote says that bytes of it are elsewhere: its snapshots are remote.
	Remote         bool      `json:"remote"`
	ImageID        string    `json:"imageId,omitempty"`
	ProvedBy       string    `json:"provedBy,omitempty"` // the fingerprint whose proof counts
	PullSource     string    `json:"pullSource,omitempty"`
	ContentSources []string  `json:"contentSources"`
	PulledAt       time.Time `json:"pulledAt,omitzero"`
	VerifiedAt     time.Time `json:"verifiedAt,omitzero"`
	VerifiedBy     string    `json:"verifiedBy,omitempty"`
	StaleSince     time.Time `json:"staleSince,omitzero"`
	StaleReason    string    `json:"staleReason,omitempty"`
}

// Attempt is a host that failed.
type Attempt struct {
	Host  string `json:"host"`
	Class string `json:"class"`
	Text  string `json:"text"`
}

// Forecast says what would follow from each answer of a registry.
type Forecast struct {
	// Unchanged is for the cached digest; nil = there is no image.
	Unchanged *Foreseen `json:"unchanged,omitempty"`
	Changed   Foreseen  `json:"changed"`
	// Overdue is for another digest whose pull takes longer than pull_deadline; nil = the
	// pull is waited for.
	Overdue *Foreseen `json:"overdue,omitempty"`
	// CachedConfirmed is for another digest, where a second question says that the
	// caller may have the cached image; nil = it is not asked, or a yes makes no difference.
	CachedConfirmed *Foreseen `json:"cachedConfirmed,omitempty"`
	// CachedUnsaid is for another digest, where the registry does not have the cached one
	// any more; nil = it is not asked.
	CachedUnsaid *Foreseen `json:"cachedUnsaid,omitempty"`
	// UseCached and Fail are the failure classes after which the cached image is used,
	// and the pod fails.
	UseCached []string `json:"useCached"`
	Fail      []string `json:"fail"`
}

// Foreseen is how a request would end.
type Foreseen struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
}
