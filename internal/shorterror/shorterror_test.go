// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package shorterror

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// A long error has the beginning of its text, which is text, and stays what it is; a short one is the same.
func TestErrorsAreBounded(t *testing.T) {
	const most = 100
	cause := errors.New("cause")
	for _, name := range []string{"a", strings.Repeat("x", most), strings.Repeat("ä", 1<<20), "x" + strings.Repeat("ä", 1<<20)} {
		long := fmt.Errorf("mkdir %s: %w", name, cause)
		err := Bounded(long, most)
		text := err.Error()
		if !errors.Is(err, cause) || len(text) > most+len("…") || !utf8.ValidString(text) || !strings.HasPrefix(text, "mkdir ") {
			t.Errorf("a text of %d bytes: %.200q", len(text), text)
		}
		if len(long.Error()) <= most && text != long.Error() {
			t.Errorf("got %q, want all of it", text)
		}
	}
	if err := Bounded(nil, most); err != nil {
		t.Error(err)
	}
}

// An error with another text stays what it is, also where that is bounded.
func TestErrorsWithAnotherText(t *testing.T) {
	cause := errors.New("cause")
	if err := WithText(cause, "cause"); err != cause { //nolint:errorlint // the very one
		t.Errorf("got %#v", err)
	}
	for text, want := range map[string]string{"other": "other", strings.Repeat("x", 100): "xxxxxx…xx"} {
		if err := Bounded(WithText(cause, text), 8); !errors.Is(err, cause) || err.Error() != want {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// A program may have the longest path that there is, of any characters. The reason, which runtimes tell behind it, is what
// an operator needs.
func TestReasonBehindALongPath(t *testing.T) {
	const most, reason = 2 << 10, ": no such file or directory"
	for _, name := range []string{"/xxxxxxx", "/ä", "/xä", "/€", "/x€", "/xx€", "/😀"} {
		path := strings.Repeat(name, 4096/len(name))
		text := Bounded(fmt.Errorf("unable to start container process: exec: %q: stat %s%s", path, path, reason), most).Error()
		if !strings.HasPrefix(text, `unable to start container process: exec: "`+name) || !strings.HasSuffix(text, reason) || !strings.Contains(text, "…") {
			t.Errorf("%s: got %s", name, text)
		}
		if len(text) > most+len("…") || len(text) < most-utf8.UTFMax || !utf8.ValidString(text) {
			t.Errorf("%s: a text of %d bytes", name, len(text))
		}
	}
}
