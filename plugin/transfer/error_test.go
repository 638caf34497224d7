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

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// A name of a file in a layer, as long as it likes, leaves no error without the reason that the system gives, but where
// that is a secret.
func TestBoundedErrorsTellTheReason(t *testing.T) {
	const reason = "no space left on device"
	for secret, want := range map[string]string{"sesame-0123456789": reason, "left on": "", "-": reason} {
		source := &redactingSource{fakeSource: &fakeSource{}}
		source.Add(secret)
		for _, bytes := range []int{900, 990, 1000, 1010, 1050, 2000, 3000, 4080, 5000, 100_000} {
			cause := fmt.Errorf("open /%s: %s", strings.Repeat("x", bytes), reason)
			text := Decorate(failing{cause}).Pull(t.Context(), &Plan{Source: source}, image.NewStore(appName)).Error()
			if len(text) > maxErrorText+2*len("…") || !strings.HasPrefix(text, "open") || want != "" && !strings.HasSuffix(text, ": "+want) || want == "" && strings.Contains(text, secret) {
				t.Errorf("%d bytes beside the secret %q: …%q", bytes, secret, text[max(0, len(text)-40):])
			}
		}
	}
}

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

// redactingSource knows a secret, as that of a registry does.
type redactingSource struct {
	*fakeSource
	redact.Redactor
}

// Clean gives an error a text without the secret; nil for nil.
func (s *redactingSource) Clean(err error) error {
	if err == nil {
		return nil
	}
	return s.Wrap(err.Error(), err)
}

// What is left of a secret where an error is cut would not be found any more.
func TestBoundedErrorsPartNoSecret(t *testing.T) {
	const secret = "open-sesame-0123456789"
	source := &redactingSource{fakeSource: &fakeSource{}}
	source.Add(secret)
	for n := range len(secret) {
		cause := fmt.Errorf("mkdir %s%s", strings.Repeat("x", maxErrorText-len("mkdir ")-n), secret)
		err := Decorate(failing{cause}).Pull(t.Context(), &Plan{Source: source}, image.NewStore(appName))
		if text := err.Error(); strings.Contains(text, "o") {
			t.Errorf("%d bytes: %s", n, text[len(text)-len(secret)-4:])
		}
	}
}
