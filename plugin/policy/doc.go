// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy finds the directives for one image pull. Each directive has
// the value of the last level that sets it:
//
//	built-in default < plugin section < first matching rule < hint
//
// It is data and pure functions: no I/O, no clock, and nothing of containerd.
// The bytes of rule files go to [ParseRules], and its rules to [NewRules];
// [Rules.For] is then safe for any number of goroutines.
package policy
