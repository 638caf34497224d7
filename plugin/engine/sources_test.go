// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// A pattern of all hosts allows all that are known, and no image of which none is.
func TestSourcesOfAllHosts(t *testing.T) {
	for source, want := range map[string]Kind{"": Failed, "mirror.test/app:1": Present} {
		n := &node{remote: first, record: cachedImage(first, now)}
		n.record.PullSource = source
		o, _ := n.engine(rule(`policy = "Never"`, `allowed_sources = ["*"]`)).Ensure(t.Context(), n.request(nil))
		if o.Kind != want {
			t.Errorf("source %q: got %s (%s), want %s", source, o.Kind, o.Reason, want)
		}
	}
}

// An image is reused under allowed_sources only if it is known to have come
// from there; otherwise its bytes are taken again, or the request fails.
func TestAllowedSources(t *testing.T) {
	for _, tc := range []struct {
		what    string
		source  string
		content []string
		allowed bool
	}{
		{"allowed", "registry.test/app:1", nil, true},
		{"several, all allowed", "registry.test/app:1", []string{"registry.test", "more.test"}, true},
		{"another host", "mirror.test/app:1", nil, false},
		{"another port", "registry.test:5000/app:1", nil, false},
		{"some content from another host", "registry.test/app:1", []string{"registry.test", "mirror.test"}, false},
		{"not known", "", nil, false},
		{"partly not known", "registry.test/app:1", []string{"?"}, false},
	} {
		for _, mode := range []policy.PullPolicy{policy.Always, policy.IfDigestChanged, policy.IfNotPresent, policy.Never} {
			for _, up := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/up=%v", tc.what, mode, up), func(t *testing.T) {
					n := &node{remote: first, record: cachedImage(first, now)}
					n.record.PullSource, n.record.ContentSources = tc.source, tc.content
					if slices.Contains(tc.content, "?") {
						n.record.ContentSources, n.record.UnknownSources = nil, true
					}
					if !up {
						n.checkFails = failure.Unreachable
					}
					rules := rule(fmt.Sprintf("policy = %q", mode), `allowed_sources = ["registry.test", "more.test"]`)
					o, err := n.engine(rules).Ensure(t.Context(), n.request(nil))

					var want Kind
					switch {
					case tc.allowed && (mode == policy.IfNotPresent || mode == policy.Never):
						want = Present
					case tc.allowed && up:
						want = Unchanged
					case tc.allowed && mode == policy.IfDigestChanged:
						want = UsedCached
					case !tc.allowed && up && mode != policy.Never:
						want = Pulled
					default:
						want = Failed
					}
					if o.Kind != want || (err != nil) != (want == Failed) {
						t.Fatalf("got %s (%s), %v; want %s", o.Kind, o.Reason, err, want)
					}
					again := slices.Equal(n.verifiedContent, []digest.Digest{first.Digest})
					if again != (want == Pulled) || n.pulls != 0 {
						t.Errorf("compared %v, pulled %d times", n.verifiedContent, n.pulls)
					}
					if want == Pulled && (n.record.PullSource != name || n.record.UnknownSources) {
						t.Errorf("the source is now %q, unknown: %v", n.record.PullSource, n.record.UnknownSources)
					}
				})
			}
		}
	}
}

func TestNoAllowedHost(t *testing.T) {
	n := &node{remote: first}
	o, err := n.engine(rule(`allowed_sources = ["mirror.test"]`)).Ensure(t.Context(), n.request(nil))
	if err == nil || o.Reason != ReasonSource || n.checks != 0 {
		t.Fatalf("got %s (%s) after %d checks, %v", o.Kind, o.Reason, n.checks, err)
	}
	for _, part := range []string{name, "rule rules.toml#1", "mirror.test", "registry.test"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}

func TestBytesThatCannotBeTakenAgain(t *testing.T) {
	n := &node{remote: first, record: cachedImage(first, now), pullFails: failure.Invalid}
	n.record.PullSource = "mirror.test/app:1"
	o, err := n.engine(rule(`policy = "IfDigestChanged"`, `allowed_sources = ["registry.test"]`)).Ensure(t.Context(), n.request(nil))
	if err == nil || o.Class != failure.Invalid || n.record.PullSource != "mirror.test/app:1" {
		t.Errorf("got %s (%s), %v; source %q", o.Kind, o.Reason, err, n.record.PullSource)
	}
}

// A pull under allowed_sources that finds content of other hosts on the node, or
// of hosts that nobody knows, verifies the whole image before there is any record of it.
func TestPullOntoForeignContent(t *testing.T) {
	for what, add := range map[string]func(*store.State){
		"another host": func(s *store.State) { s.PullSource, s.ContentSources = name, []string{"registry.test", "mirror.test"} },
		"unknown":      func(s *store.State) { s.PullSource, s.UnknownSources = name, true },
		"allowed":      func(s *store.State) { s.PullSource = name },
	} {
		for _, fails := range []bool{false, true} {
			n := &node{remote: first, onStore: add}
			e := n.engine(rule(`allowed_sources = ["registry.test"]`))
			n.verifyFails = fails
			o, err := e.Ensure(t.Context(), n.request(nil))
			verified := slices.Equal(n.verifiedContent, []digest.Digest{first.Digest})
			if verified != (what != "allowed") || (err != nil) != (verified && fails) {
				t.Errorf("%s: got %s, %v; verified %v", what, o.Kind, err, n.verifiedContent)
			}
			switch {
			case err != nil && n.record != nil:
				t.Errorf("%s: there is a record of what differs: %+v", what, n.record.State)
			case err == nil && (n.record.UnknownSources || n.record.PullSource != name || len(n.record.ContentSources) > 0 || n.record.Compared != verified):
				t.Errorf("%s: the record says %+v", what, n.record.State)
			}
		}
	}
}

// pulledOver is a node whose reference a pull that containerd makes by itself moves at the
// end of each pull; repository@digest keeps what was pulled, of which that other pull may have
// brought some.
type pulledOver struct {
	*node
	foreign   bool
	canonical *store.Record
}

func (p *pulledOver) Pull(ctx context.Context, plan *transfer.Plan) (string, error) {
	id, err := p.node.Pull(ctx, plan)
	p.canonical, p.record = p.record, cachedImage(second, now)
	p.canonical.Name = repository + "@" + p.canonical.Target.Digest.String()
	p.canonical.UnknownSources = p.foreign
	return id, err
}

func (p *pulledOver) Get(ctx context.Context, name string) (store.Record, error) {
	if p.canonical != nil && name == p.canonical.Name {
		return *p.canonical, nil
	}
	return p.node.Get(ctx, name)
}

// What is pulled counts where its reference stands for another image by then: the request begins
// anew where others have brought some of it, and fails where they do each time.
func TestPullOfAReferenceThatIsMoved(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		n := &node{remote: first, onStore: func(s *store.State) { s.PullSource = name }}
		p := &pulledOver{node: n, foreign: foreign}
		e := n.engine(rule(`allowed_sources = ["registry.test"]`))
		e.Records = p
		req := n.request(nil)
		req.Runtime = p
		o, err := e.Ensure(t.Context(), req)
		want := 1
		if foreign {
			want = maxWalks
		}
		if (err != nil) != foreign || n.pulls != want {
			t.Errorf("foreign %v: got %s, %v after %d pulls", foreign, o.Kind, err, n.pulls)
		}
	}
}

// An image of allowed hosts that is completed for another snapshotter may come
// to stand on layers of other hosts: it is compared then.
func TestCompletedOntoForeignLayers(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		n := &node{record: cachedImage(first, now), packed: true}
		n.record.PullSource = name
		n.onStore = func(s *store.State) { s.UnknownSources = foreign }
		o, err := n.engine(rule(`policy = "IfNotPresent"`, `allowed_sources = ["registry.test"]`)).Ensure(t.Context(), n.request(nil))
		want := Present
		if foreign {
			want = Pulled // compared
		}
		if o.Kind != want || err != nil || len(n.completed) != 1 {
			t.Errorf("foreign %v: got %s (%s), %v, completed %v", foreign, o.Kind, o.Reason, err, n.completed)
		}
	}
}

// Where a snapshotter may fetch layers by itself, a rule with allowed_sources
// cannot be kept: nothing is asked, pulled or reused.
func TestSourcesLimit(t *testing.T) {
	for _, mode := range []policy.PullPolicy{policy.Always, policy.IfDigestChanged, policy.IfNotPresent, policy.Never} {
		n := &node{remote: first, record: cachedImage(first, now)}
		n.record.PullSource = name
		req := n.request(nil)
		req.SourcesLimit = errTest
		o, err := n.engine(rule(fmt.Sprintf("policy = %q", mode), `allowed_sources = ["registry.test"]`)).Ensure(t.Context(), req)
		if !errors.Is(err, errTest) || o.Reason != ReasonSource || n.checks+n.pulls > 0 || !strings.Contains(err.Error(), "rule rules.toml#1") {
			t.Errorf("%s: got %s (%s), %v", mode, o.Kind, o.Reason, err)
		}
		if _, err := n.engine(rule(fmt.Sprintf("policy = %q", mode))).Ensure(t.Context(), req); err != nil {
			t.Errorf("%s without a list of sources: %v", mode, err)
		}
	}
}

// leavingOut is a registry beside which hosts are left out.
type leavingOut struct{ *node }

func (r leavingOut) Open(ctx context.Context, q resolver.Query) (resolver.Session, error) {
	s, err := r.node.Open(ctx, q)
	return leavingOutSession{s}, err
}

type leavingOutSession struct{ resolver.Session }

func (s leavingOutSession) Resolve(ctx context.Context, timeout time.Duration) (resolver.Resolution, error) {
	r, err := s.Session.Resolve(ctx, timeout)
	if failed, ok := errors.AsType[*resolver.Error](err); ok {
		failed.LeftOut = []string{"mirror.test"}
	}
	return r, err
}

// Each of two namespaces hears of its own rule.
func TestOwnRuleOfHostsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{checkFails: failure.Unreachable, onCheck: func() { time.Sleep(time.Second) }}
		e := n.engine(rule("namespaces = [\"team-a\"]\nallowed_sources = [\"registry.test\"]") +
			rule("namespaces = [\"team-b\"]\nallowed_sources = [\"registry.test\"]"))
		e.Registry, e.Observe = leavingOut{n}, nil
		ofA, ofB := n.from(teamA, alice), n.from(teamB, alice)
		ofA.Namespace, ofB.Namespace = "team-a", "team-b"
		for i, one := range []<-chan arrival{arrive(t, e, ofA), arrive(t, e, ofB)} {
			want := fmt.Sprintf("allowed_sources=registry.test(rule rules.toml#%d) leaves out mirror.test", i+1)
			if err := (<-one).outcome.Err; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("request %d gets %v", i+1, err)
			}
		}
	})
}
