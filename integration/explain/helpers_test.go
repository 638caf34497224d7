// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/plugin/api"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// caller is one that pulls with a pull secret; the zero value has none.
type caller struct{ user, password string }

// The callers. A guarded registry lets alice and bob have everything, eve and nobody
// nothing.
var (
	alice  = caller{"alice", "Pa55-of-alice-0123456789"}
	bob    = caller{"bob", "Pa55-of-bob-0123456789"}
	eve    = caller{"eve", "Pa55-of-eve-0123456789"}
	nobody = caller{}

	everybody = []caller{alice, bob, eve, nobody}
)

func guarded(t *testing.T) *resolvertest.Registry {
	t.Helper()
	r := resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{
		alice.user: alice.password, bob.user: bob.password, eve.user: eve.password,
	}))
	r.Allow(func(user, _ string) bool { return user == alice.user || user == bob.user })
	return r
}

// question is a pod's request for an image.
type question struct {
	ref       string
	who       caller
	namespace string
	hints     []string // key, value, …
}

// pull makes the request as a kubelet does, and returns the decision.
func (q question) pull(n *nodetest.Node) node.Decision {
	n.T.Helper()
	opts := []node.PullOption{node.Pod(q.namespace, "pod"), node.Hint(q.hints...)}
	if q.who != nobody {
		opts = append(opts, node.Credentials(q.who.user, q.who.password))
	}
	mark := n.Mark()
	_, _ = n.Pull(q.ref, opts...)
	return n.Decision(mark, q.ref)
}

// explain asks the daemon's API. It holds that the answer keeps the schema of the
// command line's output, which it is.
func (q question) explain(n *nodetest.Node, ask bool) api.Explanation {
	n.T.Helper()
	r := api.ExplainRequest{Reference: q.ref, Namespace: q.namespace, Annotations: map[string]string{}, Ask: ask}
	for pair := range slices.Chunk(q.hints, 2) {
		r.Annotations["pullwarden.io/"+pair[0]] = pair[1]
	}
	if q.who != nobody {
		r.Auth = &api.Auth{Username: q.who.user, Password: q.who.password}
	}
	x, err := api.Explain(n.T.Context(), n.Conn, r)
	n.Must(err)
	text, err := json.Marshal(x)
	n.Must(err)
	wantSchema(n, string(text))
	if x.Sentence == "" || strings.Contains(x.Sentence, "\n") || !strings.HasSuffix(x.Sentence, ".") {
		n.T.Errorf("the sentence is %q", x.Sentence)
	}
	return x
}

var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	return jsonschema.NewCompiler().Compile("../../docs/schema/explain.json")
})

func wantSchema(n *nodetest.Node, text string) {
	n.T.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	n.Must(err)
	s, err := schema()
	n.Must(err)
	if err := s.Validate(document); err != nil {
		n.T.Errorf("the output does not keep its schema: %v\n%s", err, text)
	}
}

// end is how a request ends.
type end struct{ Outcome, Reason, Class, Digest string }

func endOf(x api.Explanation) end { return end{x.Outcome, x.Reason, x.Class, x.Digest} }

func endOfDecision(d node.Decision) end { return end{d.Outcome, d.Reason, d.Class, d.Digest} }

// compare explains a request, makes it, and holds that both end in the same way. Without
// a question nobody is asked, and the explanation is the same where the daemon asks
// nobody, else it foresees the end.
func compare(n *nodetest.Node, q question, registries ...*resolvertest.Registry) node.Decision {
	n.T.Helper()
	asked := func() (count int) {
		for _, r := range registries {
			count += r.Count(resolvertest.NoProbe)
		}
		return count
	}
	before := asked()
	unasked := q.explain(n, false)
	if got := asked(); got != before {
		n.T.Errorf("%d requests without --ask", got-before)
	}
	x := q.explain(n, true)
	d := q.pull(n)
	want := endOfDecision(d)
	if diff := cmp.Diff(want, endOf(x)); diff != "" {
		n.T.Errorf("%+v is explained otherwise (-decision +explained)\n%s%s\n%s", q, diff, x.Sentence, d.Error)
	}
	if unasked.Outcome != "" {
		if diff := cmp.Diff(want, endOf(unasked)); diff != "" {
			n.T.Errorf("%+v without --ask (-decision +explained)\n%s%s", q, diff, unasked.Sentence)
		}
		return d
	}
	compareForecast(n, q, unasked, d)
	return d
}

// compareForecast holds that what depends on a registry was foreseen.
func compareForecast(n *nodetest.Node, q question, x api.Explanation, d node.Decision) {
	n.T.Helper()
	f := x.Forecast
	if d.Class != "" {
		if slices.Contains(f.UseCached, d.Class) != (d.Outcome != "Failed") {
			n.T.Errorf("%+v: foreseen is %+v, it is %s (%s)", q, f, d.Outcome, d.Class)
		}
		return
	}
	foreseen := []*api.Foreseen{f.Unchanged, &f.Changed, f.CachedConfirmed, f.CachedUnsaid}
	if !slices.ContainsFunc(foreseen, func(s *api.Foreseen) bool { return s != nil && s.Outcome == d.Outcome && s.Reason == d.Reason }) {
		n.T.Errorf("%+v: foreseen is %+v, it is %s (%s)", q, f, d.Outcome, d.Reason)
	}
}
