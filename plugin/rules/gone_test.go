// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/internal/keptfiles"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// The default directory that is gone is a mistake, too, where the rules that were kept of
// it cannot be read any more: a node never runs without its rules.
func TestDefaultDirectoryAfterRulesThatCannotBeRead(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, archive string){
		"damaged": func(t *testing.T, archive string) {
			t.Helper()
			if err := os.Truncate(archive, 10); err != nil {
				t.Fatal(err)
			}
		},
		"of another version": func(t *testing.T, archive string) {
			t.Helper()
			files := []File{{Path: "/etc/containerd/pullwarden.d/10.toml", Data: []byte(mistake)}}
			of := keptfiles.New(archive)
			if err := of.Keep(files, keptfiles.SumOf(files)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newKeptNode(t)
			writeIn(t, n.dir, "10.toml", never)
			n.want(policy.Never, true)
			spoil(t, n.archive)
			if err := os.RemoveAll(n.dir); err != nil {
				t.Fatal(err)
			}
			d, err := Open(Options{Path: n.dir, Archive: n.archive})
			if err == nil {
				d.Close()
				t.Fatal("it started without rules")
			}
			if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), n.dir) {
				t.Error(err)
			}
		})
	}
}
