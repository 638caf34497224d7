// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/internal/keptfiles"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// TestKeptWhileAnotherIsParsed: rules in force are kept while the background work waits for an older version.
func TestKeptWhileAnotherIsParsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		may := make(chan struct{})
		dir, archive := t.TempDir(), filepath.Join(t.TempDir(), "a", "k.tgz")
		d, err := Open(Options{Path: dir, Archive: archive, parseFile: func(file string, data []byte) ([]policy.Rule, error) {
			if strings.HasPrefix(string(data), slow) {
				<-may
			}
			return policy.ParseRules(file, data)
		}})
		if err != nil {
			t.Fatal(err)
		}
		writeIn(t, dir, "10.toml", slow+always)
		time.Sleep(2 * time.Second) // the background work waits for it
		writeIn(t, dir, "10.toml", never)
		if _, err := d.Current(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		other := keptfiles.New(archive)
		kept, err := other.Load()
		if err != nil || len(kept.Files) != 1 {
			t.Errorf("an hour later %d files are kept, %v", len(kept.Files), err)
		}
		close(may)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}
