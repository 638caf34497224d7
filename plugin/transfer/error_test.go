// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/errdefs"
)

// failing is a transfer service that fails.
type failing struct{ err error }

func (f failing) Transfer(context.Context, any, any, ...transfer.Opt) error { return f.err }

// A registry can make containerd's errors as long as it likes.
func TestErrorsAreBounded(t *testing.T) {
	for _, name := range []string{"a", strings.Repeat("x", 1000), strings.Repeat("x", 1<<20), strings.Repeat("ä", 1<<20), "x" + strings.Repeat("ä", 1<<20)} {
		cause := fmt.Errorf("mkdir %s: %w", name, errdefs.ErrNotFound)
		err := Decorate(failing{cause}).Pull(t.Context(), &Plan{Source: &fakeSource{}}, image.NewStore(appName))
		if !errors.Is(err, errdefs.ErrNotFound) || !errors.Is(err, cause) {
			t.Errorf("got %.100v", err)
		}
		text := err.Error()
		if len(text) > maxErrorText+len("…") || !utf8.ValidString(text) || !strings.HasPrefix(text, "mkdir ") {
			t.Errorf("a text of %d bytes: %.100q", len(text), text)
		}
		if len(cause.Error()) <= maxErrorText && text != cause.Error() {
			t.Errorf("got %q, want all of it", text)
		}
	}
	if err := Decorate(failing{}).Pull(t.Context(), &Plan{Source: &fakeSource{}}, image.NewStore(appName)); err != nil {
		t.Error(err)
	}
}
