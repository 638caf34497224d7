// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api is what the daemon tells of pullwarden that no record of an image
// says: the rules in force, the hosts in trouble, the pulls under way, and what a pod
// would get. It changes nothing, and tells no secrets.
//
// The service is on containerd's own gRPC socket, so it is for those who may open
// that: root. It is not on containerd's TCP address. Its messages are those of protobuf
// itself, which every gRPC library has: [Status], [ExplainRequest] and [Explanation] as
// JSON has them. A key of an answer that a client does not know is passed over; one of a
// request is an error. There is no generated code to keep in step.
//
//	service pullwarden.v1.Status {
//	  rpc Get(google.protobuf.Empty) returns (google.protobuf.Struct);
//	  rpc Explain(google.protobuf.Struct) returns (google.protobuf.Struct);
//	}
//
// The credentials of an ExplainRequest cross the socket as those of CRI's PullImage do.
// They are in no answer, error, log line or metric.
package api

import "time"

const (
	serviceName   = "pullwarden.v1.Status"
	methodGet     = "Get"
	methodExplain = "Explain"
)

func fullName(method string) string { return "/" + serviceName + "/" + method }

// ExportEnabled is what pullwarden's plugin exports to containerd's introspection:
// "true" or "false", whether its section enables it. Without the export the
// section has a mistake.
const ExportEnabled = "enabled"

// Status is what the daemon knows at one moment.
type Status struct {
	Rules Rules `json:"rules"`
	// HostFiles are those of the hosts configuration that are not in force, by path.
	HostFiles []HostFile `json:"hostFiles"`
	Hosts     []Host     `json:"hosts"` // in trouble, by name
	// Limits are settings of the node with which a promise of a rule cannot be kept,
	// as sentences.
	Limits []string `json:"limits"`
	// AuditLost is how many decisions in a row could not be written to the audit log;
	// 0 = they are written, or there is none.
	AuditLost int    `json:"auditLost"`
	Pulls     []Pull `json:"pulls"` // under way, the oldest first
}

// Rules are those in force.
type Rules struct {
	Path  string `json:"path"` // of the directory of the rule files
	Rules int    `json:"rules"`
	Files int    `json:"files"` // that they stand in
	// Observed is how many of the rules are not enforced: their mode is Observe.
	Observed int `json:"observed"`
	// RestObserved says that so it is for images that no rule matches.
	RestObserved bool `json:"restObserved"`
	// Verified says that access = "Verified" holds under one of them, or for images that
	// no rule matches.
	Verified bool `json:"verified"`
	// Error says why the newest files are not in force; "" = they are.
	Error string `json:"error,omitempty"`
}

// HostFile is a hosts.toml, or a directory of certificates, whose newest version is
// not in force.
type HostFile struct {
	Path  string `json:"path"`
	Error string `json:"error"` // why
	// LastGood says that the last good version is in force. Otherwise none is known.
	LastGood bool `json:"lastGood"`
	// OnlyAsked says that it is so for registries alone that were asked before, since a
	// certificate or key that it names cannot be read, or no copy of it can be made, as on a full disk.
	OnlyAsked bool `json:"onlyAsked,omitempty"`
}

// Host is a registry, mirror or token server in trouble: it is not asked while there
// is something else to use.
type Host struct {
	Host  string    `json:"host"`  // scheme://host[:port]
	Class string    `json:"class"` // of the failure
	Since time.Time `json:"since"`
	Until time.Time `json:"until"` // when it is probed again, unless somebody asks before
}

// Pull is a pull for CRI that is under way.
type Pull struct {
	Reference string    `json:"reference"`
	Hosts     []string  `json:"hosts"` // that have served bytes so far
	Bytes     int64     `json:"bytes"` // that have come
	Total     int64     `json:"total"` // of the content whose download has begun
	Began     time.Time `json:"began"`
	// Background says that a pull_deadline is over, and the cached image is used
	// meanwhile.
	Background bool `json:"background"`
}
