// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/plugin/api"
)

// args are those of pullwarden explain.
func (q question) args(n *nodetest.Node, more ...string) []string {
	n.T.Helper()
	args := append([]string{"explain", q.ref, "-n", q.namespace}, more...)
	for pair := range slices.Chunk(q.hints, 2) {
		args = append(args, "--hint", pair[0]+"="+pair[1])
	}
	if q.who != nobody {
		file := n.Path("credentials-" + q.who.user)
		n.Must(os.WriteFile(file, []byte(q.who.user+":"+q.who.password+"\n"), 0o600))
		args = append(args, "--creds-file", file)
	}
	return args
}

// command runs pullwarden explain in all formats. It holds that they tell the same, and
// that the screen fits a terminal of 80 columns.
func (q question) command(n *nodetest.Node, more ...string) (x api.Explanation, screen string) {
	n.T.Helper()
	run := func(format string) string {
		n.T.Helper()
		got := n.Command(q.args(n, append(more, "-o", format)...)...)
		if got.Code != 0 || got.Stderr != "" {
			n.T.Fatalf("exit %d: %s%s", got.Code, got.Stdout, got.Stderr)
		}
		return got.Stdout
	}
	text := run("json")
	wantSchema(n, text)
	n.Must(json.Unmarshal([]byte(text), &x))
	var fromYAML api.Explanation
	n.Must(yaml.Unmarshal([]byte(run("yaml")), &fromYAML))
	if fromYAML.Outcome != x.Outcome || fromYAML.Digest != x.Digest {
		n.T.Errorf("YAML has %+v, JSON %+v", fromYAML, x)
	}
	screen = run("table")
	for line := range strings.Lines(screen) {
		if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > 80 {
			n.T.Errorf("a line has %d columns: %s", columns, line)
		}
	}
	if words := strings.Join(strings.Fields(screen), " "); !strings.Contains(words, x.Reference) || !strings.HasPrefix(words, x.Sentence) {
		n.T.Errorf("the screen lacks words:\n%s", screen)
	}
	return x, screen
}

// TestCommand is a part of the tables by the command line, in the words of a person.
func TestCommand(t *testing.T) {
	t.Parallel()
	n := nodetest.NewWith(t, guarded(t), nodetest.Section(nodetest.IfDigestChanged))
	n.WriteRules("10-teams.toml", ruleFile)
	pushPulled(n, "team-b/app:1", 1)
	pushPulled(n, "other/app:1", 1)
	n.Registry.Refuse()
	for _, tt := range []struct {
		q     question
		words []string
	}{
		{question{"registry.test/other/app:1", alice, "default", nil}, []string{"The cached image is used although", "is unreachable: on.unreachable=UseCached(default)", "UsedCached (unreachable), sha256:", "none matches:", "10-teams.toml#3 (other images)", "by section", "proved by this caller"}},
		{question{"registry.test/other/app:1", bob, "default", nil}, []string{"The pod fails:", "nothing proves that these credentials may have the cached image", "unproved"}},
		{question{"registry.test/other/app:1", alice, "default", []string{"policy", "Always"}}, []string{"policy=Always(hint) does not let the cached image do", "by hint"}},
		{question{"registry.test/other/app:1", alice, "default", []string{"policy", "Never"}}, []string{"policy=Never(hint) is content with an image that is there", "without a request"}},
		{question{"registry.test/other/absent:1", alice, "default", nil}, []string{"the node has no image", "nothing"}},
		{question{"registry.test/team-b/app:1", alice, "team-b", []string{"polcy", "Never"}}, []string{"Failed (bad_hint)", "pullwarden.io/polcy", "10-teams.toml:8; passed over: 10-teams.toml#1 (other images)"}},
	} {
		x, screen := tt.q.command(n, "--ask")
		words := strings.Join(strings.Fields(screen), " ")
		for _, word := range tt.words {
			if !strings.Contains(words, word) {
				t.Errorf("%q is not on the screen:\n%s", word, screen)
			}
		}
		d := tt.q.pull(n)
		if diff := cmp.Diff(endOfDecision(d), endOf(x)); diff != "" {
			t.Errorf("%+v (-decision +explained)\n%s", tt.q, diff)
		}
	}
}

// TestExitCode holds what scripts rely on.
func TestExitCode(t *testing.T) {
	t.Parallel()
	n := nodetest.NewWith(t, guarded(t), nodetest.Section(nodetest.IfDigestChanged))
	pushPulled(n, "app:1", 1)
	ref := nodetest.Named("app:1")
	for _, tt := range []struct {
		who  caller
		args string
		code int
	}{
		{alice, "", 3},
		{alice, "--ask", 0},
		{alice, "--hint policy=Never", 0},
		{bob, "--hint policy=Never", 1},
		{eve, "--ask", 1},
		{alice, "--hint polcy=Never", 1},
	} {
		q := question{ref: ref, who: tt.who, namespace: "default"}
		more := strings.Fields(tt.args)
		nodetest.Want(t, "exit code of "+tt.args, n.Command(q.args(n, append(more, "--exit-code", "-o", "json")...)...).Code, tt.code)
		nodetest.Want(t, "exit code without --exit-code", n.Command(q.args(n, more...)...).Code, 0)
	}
	r := n.Command("explain", "UPPER//case")
	if r.Code != 2 || !strings.Contains(r.Stderr, "UPPER//case") || r.Stdout != "" {
		t.Errorf("a reference that is none: %+v", r)
	}
	r = n.Command("__complete", "explain", "reg")
	if !strings.Contains(r.Stdout, ref+"\n") {
		t.Errorf("completions %s%s", r.Stdout, r.Stderr)
	}
	n.Restart(nodetest.OnlySection("enabled = false"))
	r = n.Command("explain", ref)
	if r.Code != 2 || !strings.Contains(r.Stderr, "is not enabled") {
		t.Errorf("without pullwarden: %+v", r)
	}
}
