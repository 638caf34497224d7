// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy says what applies to one image pull. Thirteen directives are
// each settled on their own, the later level before the earlier:
//
//	built-in default < plugin section < first matching rule < hint
//
// It is data and pure functions: no I/O, no clock, and nothing of containerd.
// Whoever reads the rule files hands their bytes to [ParseRules], and what that
// returns to [NewRules]; [Rules.Decide] is then safe for any number of
// goroutines.
package policy
