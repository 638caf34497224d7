// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api is what the daemon tells of pullwarden that no record of an image
// says: the rules in force, the hosts in trouble, the pulls under way. It is
// read-only and has no secrets.
//
// The service is on containerd's own gRPC socket, so it is for those who may open
// that: root. It is not on containerd's TCP address. Its one method takes
// google.protobuf.Empty and returns google.protobuf.Struct, which is [Status] as
// JSON has it: these messages every gRPC library has, and a key that one side does
// not know is passed over. There is no generated code to keep in step.
//
//	service pullwarden.v1.Status {
//	  rpc Get(google.protobuf.Empty) returns (google.protobuf.Struct);
//	}
package api

import "time"

const (
	serviceName = "pullwarden.v1.Status"
	methodName  = "Get"
)

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
	Pulls  []Pull   `json:"pulls"` // under way, the oldest first
}

// Rules are those in force.
type Rules struct {
	Path  string `json:"path"` // of the directory of the rule files
	Rules int    `json:"rules"`
	Files int    `json:"files"` // that they stand in
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
}
