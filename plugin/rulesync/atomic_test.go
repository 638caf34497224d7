// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rulesync

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// versions are two sets of rules that share no policy: a mix of both is seen.
var versions = []files{
	{"10-a.toml": always, "20-b.toml": strings.Replace(never, "Never", "Always", 1)},
	{"10-a.toml": strings.Replace(always, "Always", "Never", 1), "20-b.toml": never, "30-c.toml": ""},
}

// A reader never sees a part of the rules, or rules of two versions, while the kubelet
// exchanges the source and the copy follows.
func TestReaderSeesAllOrNothing(t *testing.T) {
	v := newVolume(t, versions[0])
	s, _, _ := newSync(t, v.dir)
	v.must(s.Once())
	stop, stopped := make(chan struct{}), make(chan error, 2)
	for range cap(stopped) {
		go func() {
			for {
				select {
				case <-stop:
					stopped <- nil
					return
				default:
				}
				if err := wholeVersion(s.To); err != nil {
					stopped <- err
					return
				}
			}
		}()
	}
	synced := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				synced <- s.Once()
				return
			default:
				_ = s.Once() // a source that changes five times in one read is tried again
			}
		}
	}()
	for i := range 100 {
		v.exchange(versions[(i+1)%len(versions)])
	}
	close(done)
	if err := <-synced; err != nil {
		t.Error(err)
	}
	close(stop)
	for range cap(stopped) {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
	v.must(s.Probe())
}

// wholeVersion reports whether a copy has two rules of one version.
func wholeVersion(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	parsed, err := policy.ParseRules(path, data)
	if err != nil {
		return err
	}
	if len(parsed) != 2 || strings.Count(string(data), "Always") == 1 {
		return errors.New("a mix: " + string(data))
	}
	return nil
}
