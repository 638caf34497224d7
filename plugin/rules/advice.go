// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/pullwarden/pullwarden/internal/keptfiles"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// maxAdvice bounds the warnings for one version of the rules.
const maxAdvice = 16

// advise warns of rules that never decide and globs that match nothing, unless the
// rules in force are those that it has warned of. It returns the sum of their files.
func (d *Dir) advise(warned keptfiles.Sum) keptfiles.Sum {
	now := d.current.Load()
	if now.of == warned {
		return warned
	}
	advice, complete := policy.Advise(now.parsed)
	for i := range advice {
		if i == maxAdvice {
			prefixlog.L().Warnf("%d more warnings about rules in %s: pullwarden check names them all", len(advice)-i, d.Path)
			break
		}
		prefixlog.L().WithField("file", advice[i].Rule.File).Warn(advice[i].String())
	}
	if !complete {
		prefixlog.L().Infof("not all rules in %s were compared with those before them: they are too many, and too much alike", d.Path)
	}
	return now.of
}
