// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// originThenMirrors is a rule. An origin that hangs costs half of the time, and leaves the
// mirror enough of it on a busy machine.
const originThenMirrors = `resolve_from = "OriginThenMirrors"
verify_timeout = "10s"
`

// longAgo is a label's time.
const longAgo = "2026-01-02T03:04:05Z"

// gone are the faults of an origin for which a mirror answers in its place.
var gone = map[string]struct {
	fault fault
	class string
}{
	"refused":   {refused, "unreachable"},
	"hanging":   {hanging, "unreachable"},
	"swallowed": {swallowed, "unreachable"},
	"500":       {statusOf(500), "unavailable"},
	"503":       {statusOf(503), "unavailable"},
}

// TestMirrorConfirms holds that a mirror's word in the place of the origin lets the
// cached image do, loudly and under Always too, until the origin is back.
func TestMirrorConfirms(t *testing.T) {
	t.Parallel()
	s := newSite(t, originThenMirrors)
	dgst := s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	records := []string{ref, nodetest.Named("app@" + dgst)}
	s.MustPull(ref)
	s.both("writes:1", 2)
	for name, tt := range gone {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			s.wantPull(ref, "Unchanged same_digest")
			s.WaitForWrites(nodetest.Named("writes:1"))
			s.SetLabels(ref, map[string]string{"verified-at": longAgo})
			tt.fault(t, s.Registry)
			for _, opt := range []node.PullOption{node.Hint("policy", "IfDigestChanged"), always()} {
				got := s.wantPull(ref, "UsedCached mirror_fallback", opt)
				nodetest.Want(t, "level", got.Level, "warning")
				nodetest.Want(t, "who confirms", got.VerifiedBy, s.mirror.Host())
				if want := s.Registry.Host() + ": " + tt.class; !strings.Contains(got.Tried, want) {
					t.Errorf("attempts %q lack %q", got.Tried, want)
				}
				if got.LastChecked == "" || strings.HasPrefix(got.LastChecked, "0s") {
					t.Errorf("last checked %q, want long ago", got.LastChecked)
				}
			}
			for _, record := range records {
				s.wantLabels(record, map[string]string{"stale-reason": "mirror_fallback"})
				nodetest.Want(t, "verified by", s.Labels(record)["verified-by"], s.Registry.Host())
			}
			nodetest.Want(t, "verified at", s.Labels(ref)["verified-at"], longAgo)
			nodetest.Want(t, "shown reason", s.Annotations(ref)["stale-reason"], "mirror_fallback")

			s.in(t).wantPull(ref, "Unchanged same_digest")
			for _, record := range records {
				s.wantLabels(record, map[string]string{"stale-reason": "", "stale-since": "", "mirror-digest": ""})
			}
		})
	}
}

// TestMirrorGivesAnother holds that a node without the image, or with an older one,
// starts by a mirror's tag; that such an image has never been checked; and that the
// origin has the last word when it is back.
func TestMirrorGivesAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t, originThenMirrors)
	for name, tt := range gone {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			ref := nodetest.Named(name + ":1")
			own := s.Push(name+":1", nodetest.Image(1)).String()
			others := s.PushTo(s.mirror, name+":1", nodetest.Image(2)).String()
			if name != "hanging" { // there is an image already
				s.wantPull(ref, "Pulled absent")
			}
			tt.fault(t, s.Registry)
			got := s.wantPull(ref, "Pulled mirror_fallback", always())
			nodetest.Want(t, "level", got.Level, "warning")
			for _, record := range []string{ref, nodetest.Named(name + "@" + others)} {
				labels := s.Labels(record)
				nodetest.Want(t, "target", s.Target(record).String(), others)
				nodetest.Want(t, "stale reason", labels["stale-reason"], "mirror_fallback")
				for _, label := range []string{"verified-at", "verified-by", "verified-digest"} {
					nodetest.Want(t, label, labels[label], "")
				}
			}
			s.wantPull(ref, "UsedCached mirror_fallback", node.Hint("max-age", "1h")) // no check

			s.mirror.Refuse()
			got = s.wantPull(ref, "Failed max_stale", node.Hint("max-stale", "720h"))
			if !strings.Contains(got.Error, "never checked") {
				t.Errorf("the error does not say that it was never checked: %s", got.Error)
			}
			s.wantPull(ref, "UsedCached "+tt.class)
			s.wantLabels(ref, map[string]string{"stale-reason": tt.class})

			s = s.in(t)
			s.wantPull(ref, "Pulled changed")
			nodetest.Want(t, "target", s.Target(ref).String(), own)
			s.wantLabels(ref, map[string]string{"stale-reason": "", "verified-by": s.Registry.Host(), "mirror-digest": ""})
		})
	}
}

// TestOriginAnswers holds that no answer of the origin leads to a mirror.
func TestOriginAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t, originThenMirrors)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.MustPull(ref)
	for name, tt := range map[string]struct {
		fault   fault
		outcome string
	}{
		"401":    {statusOf(401), "Failed unauthorized"},
		"403":    {statusOf(403), "Failed forbidden"},
		"404":    {statusOf(404), "UsedCached not_found"},
		"410":    {statusOf(410), "UsedCached not_found"},
		"429":    {statusOf(429), "UsedCached rate_limited"},
		"portal": {portal, "Failed invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			s.wantPull(ref, "Unchanged same_digest", always())
			tt.fault(t, s.Registry)
			s.mirror.Forget()
			s.wantPull(ref, tt.outcome)
			s.wantPull(ref, "Failed "+strings.Fields(tt.outcome)[1], always())
			nodetest.Want(t, "requests to the mirror", asked(s.mirror), 0)
		})
	}
}

// TestMirrorsAnswersInNeed holds that where the mirror refuses or has nothing, too,
// the request ends as if only the origin had been asked.
func TestMirrorsAnswersInNeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, originThenMirrors)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.MustPull(ref)
	for name, fault := range map[string]fault{
		"401": statusOf(401), "403": statusOf(403), "404": statusOf(404), "429": statusOf(429), "500": statusOf(500),
		"portal": portal, "refused": refused, "swallowed": swallowed,
	} {
		t.Run(name, func(t *testing.T) {
			s := s.in(t)
			s.Registry.Refuse()
			fault(t, s.mirror)
			s.wantPull(ref, "UsedCached unreachable")
			mark := s.Mark()
			err := s.MustFail(ref, []string{s.Registry.Host(), s.mirror.Host()}, always())
			nodetest.Want(t, "class", s.Decision(mark, ref).Class, "unreachable")
			nodetest.Want(t, "RegistryUnavailable", nodetest.RegistryUnavailable(err), true)
		})
	}
}

// TestOriginInTrouble holds that an origin that is known to be in trouble is not asked
// before the mirrors.
func TestOriginInTrouble(t *testing.T) {
	t.Parallel()
	s := newSite(t, originThenMirrors)
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.MustPull(ref)
	swallowed(t, s.Registry)
	nodetest.Eventually(t, "the origin is left alone", func() bool {
		return strings.Contains(s.wantPull(ref, "UsedCached mirror_fallback", always()).Tried, "not asked")
	})
	s.mirror.Refuse() // nothing else is left to use
	s.wantPull(ref, "Failed unreachable", always())
}

// TestAllowedSourcesInNeed holds that a mirror that is not allowed is not asked in the
// place of the origin either, and that one that is allowed replaces foreign content.
func TestAllowedSourcesInNeed(t *testing.T) {
	t.Parallel()
	mirror, origin := resolvertest.New(t), resolvertest.New(t)
	s := newSiteOf(t, origin, mirror, originThenMirrors+"allowed_sources = [\""+origin.Host()+"\"]\n")
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.MustPull(ref)
	s.Registry.Refuse()
	s.wantPull(ref, "UsedCached unreachable")
	nodetest.Want(t, "requests to the mirror", asked(mirror), 0)

	s.WriteRules("rule.toml", ruleOf(originThenMirrors+"allowed_sources = [\"MIRROR\"]\n", mirror))
	nodetest.Eventually(t, "the origin is not allowed", func() bool {
		return strings.Contains(s.MustFail(ref, nil).Error(), "leaves out "+origin.Host())
	})
	nodetest.Want(t, "requests to the mirror", asked(mirror), 0)
}

// TestForeignContentInNeed holds that an image from elsewhere is taken again from
// allowed hosts where a mirror has said its digest in the place of the origin.
func TestForeignContentInNeed(t *testing.T) {
	t.Parallel()
	mirror, origin := resolvertest.New(t), resolvertest.New(t)
	s := newSiteOf(t, origin, mirror, originThenMirrors+"allowed_sources = [\""+origin.Host()+"\", \"MIRROR\"]\n")
	s.both("app:1", 1)
	ref := nodetest.Named("app:1")
	s.Import(ref, nodetest.Image(1))
	s.Registry.Refuse()
	s.wantPull(ref, "Pulled mirror_fallback")
	s.wantLabels(ref, map[string]string{"stale-reason": "mirror_fallback", "pull-source": mirror.Host() + "/app:1", "verified-at": ""})
}
