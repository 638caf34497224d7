// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"
	"time"
)

// A node on which nothing of pullwarden is, since install refused it, has nothing to undo: helm uninstall
// would fail on it for ever.
func TestUninstallWhereNothingIs(t *testing.T) {
	t.Parallel()
	f := Facts{Placed: Digests{}} // no systemd
	if p := PlanInstall(&f, time.Minute); len(p.Refusals) == 0 {
		t.Fatal("install does not refuse it")
	}
	if p := PlanUninstall(&f, time.Minute); len(p.Refusals) > 0 {
		t.Errorf("%+v", p.Refusals)
	}
}
