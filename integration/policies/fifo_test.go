// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestFIFO puts paths that nobody writes to in the place of files that every
// request reads. They are told of, and hold up neither other requests nor the
// daemon's end.
func TestFIFO(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.WriteRules("a.toml", neverRule)
	nodetest.Eventually(t, "the rule counts", func() bool {
		_, err := n.Pull(ref)
		return err != nil
	})

	mark := n.Mark()
	fifo := n.Path("rules", "0.toml")
	n.Must(syscall.Mkfifo(fifo, 0o600))
	nodetest.Eventually(t, "the FIFO is logged", func() bool { return len(n.LogLines(mark, fifo, "not a regular file")) > 0 })
	n.MustFail(ref, []string{"policy Never"})
	n.RemoveRules("0.toml")
	n.RemoveRules("a.toml")
	n.MustPull(ref)

	hosts := filepath.Join(n.HostsDirs()[0], "other.test", "hosts.toml")
	n.Must(os.Mkdir(filepath.Dir(hosts), 0o700)) // where no file was ever good
	n.Must(syscall.Mkfifo(hosts, 0o600))
	n.MustFail("other.test/app:1", []string{hosts, "not a regular file"})
	n.MustPull(ref)
	n.Stop()
}
