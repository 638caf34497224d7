// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

const (
	one = digest.Digest("sha256:1111111111111111111111111111111111111111111111111111111111111111")
	two = digest.Digest("sha256:2222222222222222222222222222222222222222222222222222222222222222")
)

// explained returns an explanation under IfDigestChanged, whose node has an image that
// the caller has proved access to.
func explained(t *testing.T, kind engine.Kind, reason engine.Reason, change func(*engine.Explanation)) engine.Explanation {
	t.Helper()
	rules, err := policy.ParseRules("10-a.toml", []byte("[[rule]]\nimages = ['**']\npolicy = 'IfDigestChanged'\nmax_age = '10m'\nmax_stale = '1h'\n"))
	if err != nil {
		t.Fatal(err)
	}
	x := engine.Explanation{}
	x.Kind, x.Reason, x.Host, x.Digest, x.Before, x.Grant = kind, reason, "registry.test", two, one, engine.GrantProved
	if x.Directives, err = policy.NewRules(policy.Overrides{}, rules).For(policy.Subject{Image: policy.Image{Repository: "registry.test/app", Tag: "1"}}); err != nil {
		t.Fatal(err)
	}
	x.Local = engine.Local{ImageID: "id", Age: engine.Age(5 * time.Minute), Grant: engine.Grant{Kind: engine.GrantProved}}
	x.Local.Record.Target.Digest = one
	x.Hosts = []resolver.HostState{{Host: "content.test"}, {Host: "mirror.test", Asked: true}, {Host: "registry.test", Asked: true, Origin: true}}
	if change != nil {
		change(&x)
	}
	return x
}

// mirrorInPlace has a mirror answer in the place of the registry.
func mirrorInPlace(x *engine.Explanation) {
	failedBy(failure.Unreachable)(x)
	x.Class, x.Host = failure.None, "mirror.test"
}

// overdueAfter has another digest be pulled, and the cached image used after that time.
func overdueAfter(d time.Duration) func(*engine.Explanation) {
	return func(x *engine.Explanation) {
		x.Forecast = engine.Forecast{
			Unchanged: engine.Action{Do: engine.Reuse, Kind: engine.Unchanged},
			Changed:   engine.Action{Do: engine.Pull, Kind: engine.Pulled, Within: policy.DeadlineAfter(d)},
			Overdue:   engine.Action{Do: engine.Reuse, Kind: engine.UsedCached, Reason: engine.ReasonPullDeadline},
		}
	}
}

func failedBy(class failure.Class) func(*engine.Explanation) {
	return func(x *engine.Explanation) {
		x.Class = class
		x.Attempts = []resolver.Attempt{{Host: "mirror.test", Class: class}, {Host: "registry.test", Origin: true, Class: class}, {Host: "other.test", Class: class}}
	}
}

var sentences = []struct {
	kind   engine.Kind
	reason engine.Reason
	change func(*engine.Explanation)
	want   string
}{
	{engine.Pulled, engine.ReasonAbsent, nil, "The image is pulled: the node has none, and registry.test has sha256:22222222…."},
	{engine.Pulled, engine.ReasonIncomplete, nil, "The image is pulled again: the node's cannot run, and registry.test has sha256:22222222…."},
	{engine.Pulled, engine.ReasonChanged, nil, "The image is pulled: registry.test has sha256:22222222…, and the node sha256:11111111…."},
	{engine.Pulled, engine.ReasonChanged, func(x *engine.Explanation) { x.Within = policy.DeadlineAfter(10 * time.Second) }, "The image is pulled: registry.test has sha256:22222222…, and the node sha256:11111111…; where that takes longer than pull_deadline=none(default), the cached image is used."},
	{engine.UsedCached, engine.ReasonPullDeadline, func(x *engine.Explanation) { x.Awaited = two }, "The cached image is used: registry.test has sha256:22222222…, which is pulled in the background under pull_deadline=none(default)."},
	{engine.Pulled, engine.ReasonSource, nil, "The image is fetched again, and compared: the node's is not known to have come from allowed_sources=all(default) alone."},
	{engine.Pulled, engine.ReasonMirrorFallback, mirrorInPlace, "The image is pulled: registry.test is unreachable, and mirror.test has sha256:22222222… in its place."},
	{engine.Pulled, engine.ReasonChanged, func(x *engine.Explanation) { x.Directives.Mode = policy.Observe }, "containerd pulls by itself under mode=Observe(default). With mode = \"Enforce\": The image is pulled: registry.test has sha256:22222222…, and the node sha256:11111111…."},
	{engine.Unchanged, engine.ReasonSame, nil, "The cached image is used: registry.test confirms its digest."},
	{engine.Unchanged, engine.ReasonProved, nil, "The cached image is used: registry.test confirms that these credentials may have it."},
	{engine.Fresh, engine.ReasonMaxAge, nil, "The cached image is used: it was checked 5m0s ago, within max_age=10m(rule 10-a.toml#1)."},
	{engine.Present, engine.ReasonDigest, nil, "The cached image is used: a digest cannot change."},
	{engine.Present, engine.ReasonPolicy, func(x *engine.Explanation) { x.Local.Grant.Kind = engine.GrantOpen }, "The cached image is used: policy=IfDigestChanged(rule 10-a.toml#1) is content with an image that is there, and under access=Verified(default) everybody may have it, as no registry was ever asked whose it is."},
	{engine.Present, engine.ReasonPolicy, func(x *engine.Explanation) { x.Local.Grant.Kind, x.Asked = engine.GrantOpen, true }, "The cached image is used: policy=IfDigestChanged(rule 10-a.toml#1) is content with an image that is there, and under access=Verified(default) everybody may have it, as no registry can say whose it is."},
	{engine.UsedCached, "unreachable", failedBy(failure.Unreachable), "The cached image is used although registry.test is unreachable: on.unreachable=UseCached(default)."},
	{engine.Unchanged, engine.ReasonSame, func(x *engine.Explanation) { x.Used = []policy.Key{policy.KeyPin} }, "The cached image is used: registry.test confirms its digest. The image that the pod gets is pinned: pin=false(default)."},
	{engine.UsedCached, "rate_limited", failedBy(failure.RateLimited), "The cached image is used although registry.test limits requests (rate_limited): on.rate_limited=UseCached(default)."},
	{engine.UsedCached, engine.ReasonMirrorFallback, mirrorInPlace, "The cached image is used: registry.test is unreachable, and mirror.test confirms its digest in its place."},
	{engine.Failed, "unauthorized", failedBy(failure.Unauthorized), "The pod fails: registry.test refuses these credentials (unauthorized), and on.unauthorized=Fail(default) does not let the cached image do."},
	{engine.Failed, "forbidden", func(x *engine.Explanation) {
		failedBy(failure.Forbidden)(x)
		x.Directives.CheckWith = policy.Manifest
	}, "The pod fails: registry.test refuses the manifest, or these credentials (forbidden), and on.forbidden=Fail(default) does not let the cached image do."},
	{"", "", func(x *engine.Explanation) {
		x.Directives.CheckWith = policy.Manifest
		x.Forecast.Changed = engine.Action{Do: engine.Pull}
	}, "It depends on mirror.test or registry.test, which were not asked: with a digest the image is pulled; where it refuses the manifest that is a failure, too, by check_with=Manifest(default); after any failure the pod fails."},
	{engine.Failed, "not_found", func(x *engine.Explanation) { failedBy(failure.NotFound)(x); x.Local = engine.Local{} }, "The pod fails: registry.test does not have it (not_found), and the node has no image."},
	{engine.Failed, "unavailable", func(x *engine.Explanation) { failedBy(failure.Unavailable)(x); x.Grant = engine.GrantNone }, "The pod fails: registry.test is unavailable, and nothing proves that these credentials may have the cached image."},
	{engine.Failed, "unavailable", func(x *engine.Explanation) {
		failedBy(failure.Unavailable)(x)
		x.Grant, x.Directives.AccessIdentity = engine.GrantNone, policy.Namespace
	}, "The pod fails: registry.test is unavailable, and nothing proves that pods of this namespace may have the cached image."},
	{engine.Failed, "invalid", func(x *engine.Explanation) { failedBy(failure.Invalid)(x); x.Local.ImageID = "" }, "The pod fails: the answer of registry.test is not right (invalid), and the node's image cannot run."},
	{engine.Failed, "unreachable", func(x *engine.Explanation) { failedBy(failure.Unreachable)(x); x.Directives.Policy = policy.Always }, "The pod fails: registry.test is unreachable, and policy=Always(rule 10-a.toml#1) does not let the cached image do."},
	{engine.Failed, engine.ReasonMaxStale, func(x *engine.Explanation) {
		failedBy(failure.Unreachable)(x)
		x.Local.Age = engine.Age(2 * time.Hour)
	}, "The pod fails: registry.test is unreachable, and the cached image was last checked 2h0m0s ago, beyond max_stale=1h(rule 10-a.toml#1)."},
	{engine.Failed, engine.ReasonVerifier, func(x *engine.Explanation) {
		failedBy(failure.Unreachable)(x)
		x.Err = &engine.Error{Name: "registry.test/app:1", Err: errors.New("image verifier x refused it")}
	}, "The pod fails: image verifier x refused it."},
	{engine.Failed, engine.ReasonHint, func(x *engine.Explanation) {
		x.Err = &engine.Error{Name: "registry.test/app:1", Err: errors.New("annotation a: no")}
	}, "The pod fails: annotation a: no."},
	{"", "", func(x *engine.Explanation) {
		x.Directives.ResolveFrom = policy.OriginThenMirrors
		x.Forecast.Changed = engine.Action{Do: engine.Pull}
	}, "It depends on mirror.test or registry.test, which were not asked: with a digest the image is pulled; where the registry is unreachable or unavailable its mirrors are asked first; after any failure the pod fails."},
	{"", "", func(x *engine.Explanation) {
		x.Directives.Govern = policy.Starts
		x.Forecast.Changed = engine.Action{Do: engine.Pull}
	}, "It depends on mirror.test or registry.test, which were not asked: with a digest the image is pulled; after any failure the pod fails. Under govern=Starts(default) this holds at every start of a container, with imagePullPolicy: IfNotPresent too."},
	{"", "", func(x *engine.Explanation) {
		x.Local = engine.Local{}
		x.Forecast.Changed = engine.Action{Do: engine.Pull}
	}, "It depends on mirror.test or registry.test, which were not asked: with a digest the image is pulled; after any failure the pod fails."},
	{"", "", func(x *engine.Explanation) {
		x.Hosts = x.Hosts[2:]
		x.Forecast.Changed = engine.Action{Do: engine.Pull}
	}, "It depends on registry.test, which was not asked: with a digest the image is pulled; after any failure the pod fails."},
	{"", "", func(x *engine.Explanation) {
		x.Hosts[1].Trouble, x.Hosts[2].Trouble = &health.State{Open: true, Class: failure.Unreachable}, &health.State{}
		x.Forecast.Changed = engine.Action{Do: engine.Pull}
	}, "It depends on mirror.test (in trouble: unreachable) or registry.test, which were not asked: with a digest the image is pulled; after any failure the pod fails."},
	{"", "", func(x *engine.Explanation) {
		x.Forecast = engine.Forecast{
			Unchanged: engine.Action{Do: engine.Reuse, Kind: engine.Unchanged}, Changed: engine.Action{Do: engine.Pull},
			UseCached: failure.SetOf(failure.Unreachable, failure.Unavailable, failure.RateLimited, failure.NotFound),
		}
	}, "It depends on mirror.test or registry.test, which were not asked: with the node's digest the cached image is used; with another the image is pulled; after unreachable, unavailable, rate_limited or not_found the cached image is used; after unauthorized, forbidden or invalid the pod fails."},
	{"", "", overdueAfter(10 * time.Second), "It depends on mirror.test or registry.test, which were not asked: with the node's digest the cached image is used; with another the image is pulled, and after 10s the cached image is used; after any failure the pod fails."},
	{"", "", overdueAfter(0), "It depends on mirror.test or registry.test, which were not asked: with the node's digest the cached image is used; with another the cached image is used, and the other is pulled in the background; after any failure the pod fails."},
	{"", "", func(x *engine.Explanation) {
		reuse := engine.Action{Do: engine.Reuse, Kind: engine.Unchanged}
		x.Forecast = engine.Forecast{Unchanged: reuse, Changed: engine.Action{Do: engine.Pull}, CachedConfirmed: reuse}
	}, "It depends on mirror.test or registry.test, which were not asked: with the node's digest the cached image is used; with another the cached image is used if that is confirmed for these credentials, too, else the image is pulled; after any failure the pod fails."},
	{"", "", func(x *engine.Explanation) { // a caller without a proof, and a registry that hosts.toml names twice
		x.Hosts, x.Local.Grant = append(x.Hosts[2:], x.Hosts[2]), engine.Grant{Kind: engine.GrantNone}
		x.Forecast = engine.Forecast{Unchanged: engine.Action{Do: engine.Reuse, Kind: engine.Unchanged}, Changed: engine.Action{Do: engine.Pull}}
	}, "It depends on registry.test, which was not asked: with the node's digest the cached image is used; with another the image is pulled; after any failure the pod fails, since nothing proves that these credentials may have the cached image."},
	{"", "", func(x *engine.Explanation) {
		reuse := engine.Action{Do: engine.Reuse, Kind: engine.Unchanged}
		x.Forecast = engine.Forecast{
			Unchanged: engine.Action{Do: engine.Fail, Kind: engine.Failed, Reason: engine.ReasonVerifier}, Changed: engine.Action{Do: engine.Pull},
			CachedConfirmed: reuse, CachedUnsaid: reuse,
		}
	}, "It depends on mirror.test or registry.test, which were not asked: with the node's digest the pod fails (verifier); with another the cached image is used unless that is refused to these credentials: then the image is pulled; after any failure the pod fails."},
}

func TestSentence(t *testing.T) {
	t.Parallel()
	for _, tt := range sentences {
		if got := sentence(explained(t, tt.kind, tt.reason, tt.change)); got != tt.want {
			t.Errorf("%s (%s):\n%s, want\n%s", tt.kind, tt.reason, got, tt.want)
		}
	}
}
