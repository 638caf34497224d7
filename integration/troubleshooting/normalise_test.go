// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package troubleshooting

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const page = "../../docs/troubleshooting.md"

// variable are the parts of a message that differ from one time to the next, with what
// stands for them where messages are compared.
var variable = []struct {
	part *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`sha256:[0-9a-f]{8,64}…?`), "sha256:D"},
	{regexp.MustCompile(`/ingest/[0-9a-f]{8,64}…?`), "/ingest/D"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`\b(after|within|checked) [\dhmµs.]+s\b`), "$1 AGE"},
	{regexp.MustCompile(` \(\d tries\)`), ""},
	{regexp.MustCompile(`\s+`), " "},
}

func invariant(text string) string {
	for _, v := range variable {
		text = v.part.ReplaceAllString(text, v.by)
	}
	return strings.TrimSpace(text)
}

// kubeletText is the error of a pull as the kubelet's event has it: without the code,
// where that is Unknown.
func kubeletText(err error) string {
	if s := status.Convert(err); s.Code() == codes.Unknown {
		return s.Message()
	}
	return err.Error()
}

// public gives a message of the scene the names and paths of the page.
func (s *scene) public(message string) string {
	names := []string{
		s.Path("hosts0"), "/etc/containerd/certs.d",
		s.Path("rules"), "/etc/containerd/pullwarden.d",
		s.Path("root"), "/var/lib/containerd",
		s.name, "registry.example.com",
	}
	if s.Registry != nil {
		names = append(names, "dial tcp "+s.Registry.Host(), "dial tcp 192.0.2.10:443", s.Registry.Host(), "registry.example.com")
	}
	if s.mirror != nil {
		names = append(names, s.mirror.Host(), "mirror.example.com")
	}
	return strings.NewReplacer(names...).Replace(message)
}

// shows reports whether a block of the page shows a message, in full or up to an ellipsis.
func shows(blocks []string, message string) bool {
	return slices.ContainsFunc(blocks, func(block string) bool {
		beginning, cut := strings.CutSuffix(block, "…")
		return block == message || cut && strings.HasPrefix(message, beginning)
	})
}

// blocks returns the blocks of the page that show text.
func blocks(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(string(data), -1) {
		texts = append(texts, invariant(m[1]))
	}
	return texts
}
