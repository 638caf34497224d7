// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// report has the promised keys, by their promised names.
type report struct {
	Healthy  bool      `json:"healthy"`
	Problems []problem `json:"problems"`
	Notes    []problem `json:"notes"`
	Hosts    []struct {
		Host  string `json:"host"`
		Class string `json:"class"`
	} `json:"hosts"`
	Rules struct {
		Rules int    `json:"rules"`
		Files int    `json:"files"`
		Error string `json:"error"`
	} `json:"rules"`
	Images []image `json:"images"`
}

type problem struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

type image struct {
	Reference      string    `json:"reference"`
	Digest         string    `json:"digest"`
	PullSource     string    `json:"pullSource"`
	ContentSources []string  `json:"contentSources"`
	VerifiedAt     time.Time `json:"verifiedAt"`
	VerifiedBy     string    `json:"verifiedBy"`
	StaleSince     time.Time `json:"staleSince"`
	StaleReason    string    `json:"staleReason"`
	Proofs         int       `json:"proofs"`
	Pinned         bool      `json:"pinned"`
}

// statusOf runs pullwarden status -o json. It holds that the output keeps its schema,
// and that the exit code says whether the node is healthy.
func statusOf(n *nodetest.Node, args ...string) (r report) {
	n.T.Helper()
	got := n.Command(append([]string{"status", "-o", "json"}, args...)...)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(got.Stdout))
	if err != nil {
		n.T.Fatalf("exit %d: %v\n%s%s", got.Code, err, got.Stdout, got.Stderr)
	}
	schema, err := jsonschema.NewCompiler().Compile("../../docs/schema/status.json")
	n.Must(err)
	if err := schema.Validate(document); err != nil {
		n.T.Errorf("the output does not keep its schema: %v", err)
	}
	n.Must(json.Unmarshal([]byte(got.Stdout), &r))
	if want := map[bool]int{true: 0, false: 1}[r.Healthy]; got.Code != want || r.Healthy != (len(r.Problems) == 0) {
		n.T.Errorf("exit %d, healthy is %t with problems %v", got.Code, r.Healthy, r.Problems)
	}
	return r
}

// references returns those of the images, one a line.
func (r *report) references() string {
	var b strings.Builder
	for i := range r.Images {
		b.WriteString(r.Images[i].Reference + "\n")
	}
	return b.String()
}

func ids(all []problem) string {
	var list []string
	for _, p := range all {
		list = append(list, p.ID)
	}
	return strings.Join(list, " ")
}

// wantScreen holds that the table has the words and fits a terminal of 80 columns.
func wantScreen(n *nodetest.Node, code int, words ...string) {
	n.T.Helper()
	r := n.Command("status")
	nodetest.Want(n.T, "exit code", r.Code, code)
	for line := range strings.Lines(r.Stdout) {
		if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > 80 {
			n.T.Errorf("a line has %d columns: %s", columns, line)
		}
	}
	for _, word := range words {
		if !strings.Contains(r.Stdout, word) {
			n.T.Errorf("%q is not on the screen:\n%s%s", word, r.Stdout, r.Stderr)
		}
	}
}

// wantSameYAML holds that YAML has what JSON has.
func wantSameYAML(t *testing.T, asJSON, asYAML string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(asJSON), &a); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(asYAML), &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("YAML is not JSON (-json +yaml)\n%s", diff)
	}
}
