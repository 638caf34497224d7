// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package tomlfile

import "testing"

func TestErrorText(t *testing.T) {
	for _, test := range []struct {
		err  Error
		want string
	}{
		{Error{File: "/etc/x/10-a.toml", Line: 12, Column: 3, Key: "rule[1].policy", Message: "bad"}, "/etc/x/10-a.toml:12:3: rule[1].policy: bad"},
		{Error{File: "f", Message: "is empty"}, "f: is empty"},
		{Error{File: "f", Line: 2, Message: "m"}, "f:2: m"},
		{Error{Line: 2, Column: 1, Message: "m"}, "2:1: m"},
		{Error{Key: "k", Message: "m"}, "k: m"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestJoin(t *testing.T) {
	if err := Join(nil, nil); err != nil {
		t.Errorf("nothing joined is %v", err)
	}
	err := Join(&Error{Line: 2, Column: 4, Message: "c"}, nil, &Error{Line: 2, Column: 1, Message: "b"}, &Error{Message: "a"})
	if want := "a\n2:1: b\n2:4: c"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
