// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"os"
	"testing"
)

// TestKeyOfAnotherOwner: a key that another user owns is readable to that user, whatever its mode.
func TestKeyOfAnotherOwner(t *testing.T) {
	t.Parallel()
	v := newSurvivors(t)
	v.Stop()
	v.Must(os.Chown(v.keyFile(), 65534, 65534))
	v.Restart()
	v.wantStanding("a key that another user owns", false)
}
