// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package troubleshooting

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const mistaken = "[[rule]]\nimages = [\"**\"]\npolcy = \"Always\"\n"

// TestLogs holds that docs/troubleshooting.md shows what containerd's log says.
func TestLogs(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged))
	n.WriteRules("10-team-a.toml", "[[rule]]\nimages = [\"other.test/**\"]\n")
	n.Start()

	s := newScene(t, n, "fallback")
	s.cached()
	mark := s.Mark()
	s.Registry.Hang(resolvertest.All)
	s.MustPull(s.ref(), node.Hint("verify-timeout", "1s"))
	d := s.Decision(mark, s.ref())
	s.wantDocumented(d.Message)
	tried := ""
	nodetest.Eventually(t, "the host is in trouble before the check begins", func() bool {
		mark = s.Mark()
		s.MustPull(s.ref())
		tried = s.Decision(mark, s.ref()).Tried
		return strings.Contains(tried, ": not asked, in trouble") && !strings.Contains(tried, "given up")
	})
	s.wantDocumented(tried)

	mark = s.Mark()
	s.WriteHosts(s.name, s.Server(s.Registry)+"[host.\"https://mirror.example.com\"\n")
	nodetest.Eventually(t, "the mistake in hosts.toml is logged", func() bool { return len(s.LogLines(mark, "hosts configuration")) > 0 })
	s.wantDocumented(s.message(mark, "hosts configuration"))

	mark = s.Mark()
	s.WriteRules("10-team-a.toml", mistaken)
	newScene(t, n, "other").cached()
	nodetest.Eventually(t, "the mistake in the rules is logged", func() bool { return len(s.LogLines(mark, "not taken")) > 0 })
	s.wantDocumented(s.message(mark, "not taken"))
}

// TestStartWithAMistake holds that it shows why CRI does not start.
func TestStartWithAMistake(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t)
	n.WriteRules("10-team-a.toml", mistaken)
	n.Run()
	s := &scene{Node: n, name: "none.test"}
	s.wantDocumented(n.Plugin("io.containerd.grpc.v1", "cri").GetInitErr().GetMessage())
}

// TestAccessAfterRotation holds that the log tells who has no proof.
func TestAccessAfterRotation(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Section(nodetest.IfDigestChanged))
	s := newScene(t, n, "rotation", guarded())
	s.cached(alice())
	s.Registry.Refuse()
	mark := s.Mark()
	_, err := s.Pull(s.ref(), node.Credentials("alice", "the new one"))
	if err == nil {
		t.Fatal("the pod gets an image")
	}
	nodetest.Want(t, "access", s.Decision(mark, s.ref()).Access, "unproved")
}

// message returns the message of the first line of the log since the mark with that word.
func (s *scene) message(since node.Mark, word string) string {
	s.T.Helper()
	var line struct {
		Message string `json:"msg"`
	}
	for _, text := range s.LogLines(since, "pullwarden: ", word) {
		s.Must(json.Unmarshal([]byte(text), &line))
		if strings.Contains(line.Message, word) {
			return line.Message
		}
	}
	s.T.Fatalf("the log does not say %q", word)
	return ""
}
