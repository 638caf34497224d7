// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package troubleshooting

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const rules = `
[[rule]]
images    = ["max-stale.test/**"]
policy    = "IfDigestChanged"
max_stale = "24h"
[[rule]]
images = ["taken-away.test/**"]
policy = "IfDigestChanged"
on.not_found = "Fail"
[[rule]]
images = ["tighten.test/**"]
policy = "Always"
hints  = "Tighten"
[[rule]]
images          = ["source.test/**"]
policy          = "IfDigestChanged"
allowed_sources = ["mirror.example.com"]
`

// verifier refuses the images of some registries.
const verifier = `#!/bin/sh
case "$2" in verifier*) echo "no signature of team-a"; exit 1;; esac
`

// failures are ways in which a pod gets no image.
var failures = []struct {
	name, reason string
	registry     []resolvertest.Option
	prepare      func(s *scene) []node.PullOption
}{
	{"absent", "absent", nil, func(*scene) []node.PullOption { return hint("policy", "Never") }},
	{"unproved", "unproved", []resolvertest.Option{guarded()}, func(s *scene) []node.PullOption {
		s.cached(alice())
		return append(hint("policy", "Never"), wrong())
	}},
	{"refused", "unreachable", nil, func(s *scene) []node.PullOption { s.Registry.Refuse(); return nil }},
	{"hangs", "unreachable", nil, func(s *scene) []node.PullOption {
		s.cached()
		s.Registry.Hang(resolvertest.Manifests)
		return hint("policy", "Always", "verify-timeout", "1s")
	}},
	{"rotated", "unreachable", []resolvertest.Option{guarded()}, func(s *scene) []node.PullOption {
		s.cached(alice())
		s.Registry.Refuse()
		return []node.PullOption{node.Credentials("alice", "the new one")}
	}},
	{"unavailable", "unavailable", nil, func(s *scene) []node.PullOption { return s.says(503) }},
	{"blob", "unavailable", nil, func(s *scene) []node.PullOption {
		s.cached()
		s.Push(image, nodetest.Image(2))
		s.Registry.Status(resolvertest.Blobs, 503)
		return hint("policy", "Always")
	}},
	{"rate-limited", "rate_limited", nil, func(s *scene) []node.PullOption { return s.says(429, "Retry-After", "3600") }},
	{"not-found", "not_found", nil, nothing},
	{"taken-away", "not_found", nil, func(s *scene) []node.PullOption {
		s.aged()
		s.DeleteTag(repository, "1")
		return nil
	}},
	{"mirror", "not_found", nil, func(s *scene) []node.PullOption { s.mirrored(); return nil }},
	{"wrong-password", "unauthorized", []resolvertest.Option{guarded()}, func(s *scene) []node.PullOption {
		s.cached(alice())
		return []node.PullOption{wrong()}
	}},
	{"no-secret", "unauthorized", []resolvertest.Option{guarded()}, nothing},
	{"forbidden", "forbidden", nil, func(s *scene) []node.PullOption { s.cached(); return s.says(403) }},
	{"web-page", "invalid", nil, func(s *scene) []node.PullOption { s.Registry.HTML(resolvertest.Manifests); return nil }},
	{"certificate", "invalid", nil, func(s *scene) []node.PullOption {
		s.WriteHosts(s.name, fmt.Sprintf("server = %q\n", s.Registry.URL()))
		return nil
	}},
	{"unknown-hint", "bad_hint", nil, func(*scene) []node.PullOption { return hint("polcy", "Never") }},
	{"tighten", "bad_hint", nil, func(*scene) []node.PullOption { return hint("policy", "IfNotPresent") }},
	{"relaxed", "bad_hint", nil, func(*scene) []node.PullOption { return hint("on-unauthorized", "UseCached") }},
	{"bad-hosts", "bad_hosts", nil, func(s *scene) []node.PullOption {
		s.WriteHosts(s.name, fmt.Sprintf("server = %q\n\n[host.\"https://mirror.example.com\"\n", s.Registry.URL()))
		return nil
	}},
	{"verifier-reuse", "verifier", nil, func(s *scene) []node.PullOption {
		script := s.Path("verifiers", "verifier")
		s.Must(os.Remove(script))
		s.cached() // who has not proved access is told of a pull
		s.Must(os.WriteFile(script, []byte(verifier), 0o700))
		return nil
	}},
	{"verifier-pull", "pull", nil, nothing},
	{"max-stale", "max_stale", nil, func(s *scene) []node.PullOption { s.aged(); s.Registry.Refuse(); return nil }},
	{"source", "source", nil, nothing},
	{"left-out", "unreachable", nil, func(s *scene) []node.PullOption {
		s.mirrored()
		s.WriteRules("20-left-out.toml", fmt.Sprintf("[[rule]]\nimages = [\"left-out.test/**\"]\npolicy = \"IfDigestChanged\"\nallowed_sources = [%q]\n", s.Registry.Host()))
		s.Registry.Refuse()
		return nil
	}},
}

func hint(pairs ...string) []node.PullOption { return []node.PullOption{node.Hint(pairs...)} }

// nothing goes wrong but what the name of the scene brings with it.
func nothing(s *scene) []node.PullOption {
	if s.name != "not-found.test" {
		s.Push(image, nodetest.Image(1))
	}
	return nil
}

func (s *scene) says(code int, headers ...string) []node.PullOption {
	s.Registry.Status(resolvertest.Manifests, code, headers...)
	return nil
}

// TestMessages holds that docs/troubleshooting.md shows what the kubelet is told.
func TestMessages(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged))
	n.WriteRules("10-team-a.toml", rules)
	n.Must(os.WriteFile(n.Path("verifiers", "verifier"), []byte(verifier), 0o700))
	n.Start()
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			s := newScene(t, n, f.name, f.registry...)
			s.wantFailure(f.reason, f.prepare(s)...)
		})
	}
}

// TestFullDisk does so for a disk without space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged))
	dir := n.Path("root", "io.containerd.content.v1.content")
	n.Must(os.MkdirAll(dir, 0o700))
	n.Must(unix.Mount("pullwarden-test", dir, "tmpfs", 0, "size=1m"))
	n.Start()
	s, small := newScene(t, n, "full"), newScene(t, n, "small")
	s.cached()
	small.cached()
	s.Push(image, resolvertest.Image(2, 1, 4<<20))
	s.wantFailure("pull") // and there is no fallback
	small.MustPull(small.ref())
}

// wantFailure pulls, and wants the page to show what the kubelet is told.
func (s *scene) wantFailure(reason string, opts ...node.PullOption) {
	s.T.Helper()
	mark := s.Mark()
	_, err := s.Pull(s.ref(), opts...)
	if err == nil {
		s.T.Fatal("the pod gets an image")
	}
	nodetest.Want(s.T, "reason", s.Decision(mark, s.ref()).Reason, reason)
	s.wantDocumented(kubeletText(err))
}
