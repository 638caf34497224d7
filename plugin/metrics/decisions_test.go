// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/pullwarden/pullwarden/plugin/engine"
)

// A mirror that is a path of a host counts with that host: paths are no values of labels.
func TestTimeOfAMirrorThatIsAPath(t *testing.T) {
	t.Parallel()
	m := New()
	for _, host := range []string{"registry.test:443", "registry.test/v2/public", "registry.test:443/v2/other"} {
		m.Decision(t.Context(), engine.Outcome{Host: host})
	}
	wantSeries(t, gather(t, m.decisions.verify), map[string]float64{"pullwarden_verify_duration_seconds registry.test": 0})
}
