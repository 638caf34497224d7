// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// hintRow is a hint over a value in force.
type hintRow struct {
	inForce, hint  string
	allow, tighten string // the value after the hint; bad = an error
	reason         string // in the error under Tighten, or in both
}

const (
	bad       = "bad" // an error in this mode
	durations = "allowed are durations from 0s, such as 90s, 10m or 24h"
)

// hintRows are those of the directives, but for the failure classes, which are
// all alike.
var hintRows = map[Key][]hintRow{
	KeyPolicy: {
		{"Always", "Always", "Always", "Always", ""},
		{"Always", "IfDigestChanged", "IfDigestChanged", bad, "without the hint it is Always (rule 10-a.toml#1), which a hint may only tighten: allowed is Always"},
		{"Always", "IfNotPresent", "IfNotPresent", bad, "allowed is Always"},
		{"Always", "Never", "Never", bad, "allowed is Always"},
		{"IfDigestChanged", "Always", "Always", "Always", ""},
		{"IfDigestChanged", "IfDigestChanged", "IfDigestChanged", "IfDigestChanged", ""},
		{"IfDigestChanged", "IfNewerNotPresent", "IfDigestChanged", "IfDigestChanged", ""},
		{"IfDigestChanged", "IfNotPresent", "IfNotPresent", bad, "allowed are Always, IfDigestChanged"},
		{"IfDigestChanged", "Never", "Never", bad, "allowed are Always, IfDigestChanged"},
		{"IfNotPresent", "Always", "Always", "Always", ""},
		{"IfNotPresent", "IfDigestChanged", "IfDigestChanged", "IfDigestChanged", ""},
		{"IfNotPresent", "IfNotPresent", "IfNotPresent", "IfNotPresent", ""},
		{"IfNotPresent", "Never", "Never", bad, "allowed are Always, IfDigestChanged, IfNotPresent"},
		{"Never", "Always", "Always", bad, "without the hint it is Never (rule 10-a.toml#1), which a hint may only tighten: allowed is Never"},
		{"Never", "IfDigestChanged", "IfDigestChanged", bad, "allowed is Never"},
		{"Never", "IfNotPresent", "IfNotPresent", bad, "allowed is Never"},
		{"Never", "Never", "Never", "Never", ""},
		{"Always", "Sometimes", bad, bad, "allowed are Always, IfDigestChanged, IfNotPresent, Never"},
		{"Always", "always", bad, bad, "allowed are Always, IfDigestChanged, IfNotPresent, Never"},
	},
	KeyMaxAge: {
		{"10m", "10m", "10m", "10m", ""},
		{"10m", "600s", "10m", "10m", ""},
		{"10m", "9m", "9m", "9m", ""},
		{"10m", "0s", "0s", "0s", ""},
		{"10m", "11m", "11m", bad, "without the hint it is 10m (rule 10-a.toml#1), which a hint may only tighten: allowed is 0s to 10m"},
		{"0s", "0s", "0s", "0s", ""},
		{"0s", "1s", "1s", bad, "allowed is 0s"},
		{"0s", "-1s", bad, bad, durations},
		{"0s", "10", bad, bad, durations},
		{"0s", "", bad, bad, durations},
	},
	KeyMaxStale: {
		{"24h", "24h", "24h", "24h", ""},
		{"24h", "1h", "1h", "1h", ""},
		{"24h", "25h", "25h", bad, "without the hint it is 24h (rule 10-a.toml#1), which a hint may only tighten: allowed is more than 0s and up to 24h"},
		{"24h", "0s", "0s", bad, "allowed is more than 0s and up to 24h"},
		{"0s", "0s", "0s", "0s", ""},
		{"0s", "1000h", "1000h", "1000h", ""},
		{"0s", "soon", bad, bad, durations},
	},
	KeyPullDeadline: {
		{"10s", "10s", "10s", "10s", ""},
		{"10s", "11s", "11s", "11s", ""},
		{"10s", "9s", "9s", bad, "without the hint it is 10s (rule 10-a.toml#1), which a hint may only tighten: allowed is 10s or longer"},
		{"10s", "0s", "0s", bad, "allowed is 10s or longer"},
		{"0s", "1s", "1s", "1s", ""},
		{"10s", "none", bad, bad, durations},
		{"10s", "-1s", bad, bad, durations},
	},
	KeyVerifyTimeout: {
		{"5s", "5s", "5s", "5s", ""},
		{"5s", "4s", "4s", bad, "without the hint it is 5s (rule 10-a.toml#1), which a hint may only tighten: allowed is 5s"},
		{"5s", "6s", "6s", bad, "allowed is 5s"},
		{"5s", "100ms", "100ms", bad, "allowed is 5s"},
		{"5s", "2m", "2m", bad, "allowed is 5s"},
		{"5s", "99ms", bad, bad, ""},
		{"5s", "2m1ns", bad, bad, ""},
		{"3m", "3m", bad, "3m", ""},
		{"5s", "0s", bad, bad, "allowed are durations longer than 0s, such as 500ms or 5s"},
	},
	KeyResolveFrom: {
		{"Mirrors", "Mirrors", "Mirrors", "Mirrors", ""},
		{"Mirrors", "Origin", "Origin", "Origin", ""},
		{"Origin", "Mirrors", "Mirrors", bad, "without the hint it is Origin (rule 10-a.toml#1), which a hint may only tighten: allowed is Origin"},
		{"Origin", "Origin", "Origin", "Origin", ""},
		{"Mirrors", "OriginThenMirrors", "OriginThenMirrors", "OriginThenMirrors", ""},
		{"OriginThenMirrors", "Origin", "Origin", "Origin", ""},
		{"OriginThenMirrors", "Mirrors", "Mirrors", bad, "without the hint it is OriginThenMirrors (rule 10-a.toml#1), which a hint may only tighten: allowed are OriginThenMirrors, Origin"},
		{"Origin", "OriginThenMirrors", "OriginThenMirrors", bad, "without the hint it is Origin (rule 10-a.toml#1), which a hint may only tighten: allowed is Origin"},
		{"Origin", "origin", bad, bad, "allowed are Mirrors, OriginThenMirrors, Origin"},
	},
}
