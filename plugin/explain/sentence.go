// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// sentence says the decision and why.
func sentence(x engine.Explanation) string {
	text := decided(x) + pinned(x)
	if x.Directives.Mode == policy.Observe {
		return "containerd pulls by itself under " + x.Directives.Describe(policy.KeyMode) + ". With mode = \"Enforce\": " + text
	}
	if x.Directives.GovernsStart(x.Local.ByDigest) {
		return text + " Under " + x.Directives.Describe(policy.KeyGovern) + " this holds at every start of a container, with imagePullPolicy: IfNotPresent too."
	}
	return text
}

// pinned says that the image which the pod gets is kept on the node.
func pinned(x engine.Explanation) string {
	if !slices.Contains(x.Used, policy.KeyPin) {
		return ""
	}
	return " The image that the pod gets is pinned: " + x.Directives.Describe(policy.KeyPin) + "."
}

// decided says what is decided, whether or not it takes effect.
func decided(x engine.Explanation) string {
	switch {
	case x.Reason == engine.ReasonMirrorFallback && x.Kind == engine.UsedCached:
		return fmt.Sprintf("The cached image is used: %s, and %s confirms its digest in its place.", originsTrouble(x), x.Host)
	case x.Reason == engine.ReasonMirrorFallback:
		return fmt.Sprintf("The image is pulled: %s, and %s has %s in its place.", originsTrouble(x), x.Host, short(x.Digest))
	}
	switch x.Kind {
	case "":
		return depends(x)
	case engine.Pulled:
		return pulled(x)
	case engine.Failed:
		return "The pod fails: " + whyFailed(x) + "."
	case engine.UsedCached:
		if x.Reason == engine.ReasonPullDeadline {
			return fmt.Sprintf("The cached image is used: %s has %s, which is pulled in the background under %s.",
				x.Host, short(x.Awaited), x.Directives.Describe(policy.KeyPullDeadline))
		}
		return fmt.Sprintf("The cached image is used although %s: %s.", troubleOf(x), whyCached(x))
	}
	return "The cached image is used: " + whyReused(x) + "."
}

func whyReused(x engine.Explanation) string {
	switch x.Reason {
	case engine.ReasonSame:
		return x.Host + " confirms its digest"
	case engine.ReasonProved:
		return x.Host + " confirms that these credentials may have it"
	case engine.ReasonMaxAge:
		return fmt.Sprintf("it was checked %s, within %s", x.Local.Age, x.Directives.Describe(policy.KeyMaxAge))
	case engine.ReasonDigest:
		return "a digest cannot change" + whoseDoesNotMatter(x)
	case engine.ReasonPolicy:
		return x.Directives.Describe(policy.KeyPolicy) + " is content with an image that is there" + whoseDoesNotMatter(x)
	}
	return string(x.Reason)
}

// whoseDoesNotMatter says why an image of which nobody has proved anything is reused.
func whoseDoesNotMatter(x engine.Explanation) string {
	if x.Local.Grant.Kind != engine.GrantOpen {
		return ""
	}
	text := ", and under " + x.Directives.Describe(policy.KeyAccess) + " everybody may have it, as "
	if x.Asked {
		return text + "no registry can say whose it is"
	}
	return text + "no registry was ever asked whose it is"
}

func whyCached(x engine.Explanation) string {
	if on, ok := policy.KeyOn(x.Class); ok && x.Reason == engine.Reason(x.Class) {
		return x.Directives.Describe(on)
	}
	return string(x.Reason)
}

func pulled(x engine.Explanation) string {
	has := fmt.Sprintf("%s has %s", x.Host, short(x.Digest))
	switch x.Reason {
	case engine.ReasonAbsent:
		return "The image is pulled: the node has none, and " + has + "."
	case engine.ReasonIncomplete:
		return "The image is pulled again: the node's cannot run, and " + has + "."
	case engine.ReasonChanged:
		return fmt.Sprintf("The image is pulled: %s, and the node %s%s.", has, short(x.Before), untilOverdue(x))
	case engine.ReasonSource:
		return fmt.Sprintf("The image is fetched again, and compared: the node's is not known to have come from %s alone.",
			x.Directives.Describe(policy.KeyAllowedSources))
	}
	return fmt.Sprintf("The image is pulled (%s): %s.", x.Reason, has)
}

// untilOverdue says for how long a pull is waited for; "" where that has no bound.
func untilOverdue(x engine.Explanation) string {
	if _, bounded := x.Within.Bound(); !bounded {
		return ""
	}
	return "; where that takes longer than " + x.Directives.Describe(policy.KeyPullDeadline) + ", the cached image is used"
}

// whyFailed says in a few words what the error says in many.
func whyFailed(x engine.Explanation) string {
	if x.Reason != engine.Reason(x.Class) && x.Reason != engine.ReasonMaxStale {
		return cause(x.Err) // no registry's
	}
	return troubleOf(x) + ", and " + whyNoFallback(x)
}

// cause is that of an error without the names of image and policy, which are on the
// screen.
func cause(err error) string {
	if failed, ok := errors.AsType[*engine.Error](err); ok {
		err = failed.Err
	}
	return strings.TrimSuffix(err.Error(), ".")
}

// whyNoFallback says why the cached image does not do after the registry failed.
func whyNoFallback(x engine.Explanation) string {
	d := &x.Directives
	grant := engine.Grant{Kind: x.Grant}
	on, _ := policy.KeyOn(x.Class)
	switch {
	case x.Local.Record.Target.Digest == "":
		return "the node has no image"
	case x.Local.ForeignSource:
		return "the node's image is not known to have come from " + d.Describe(policy.KeyAllowedSources) + " alone"
	case !x.Local.Usable():
		return "the node's image cannot run"
	case x.Local.Remote && d.OnFailure(x.Class) == policy.UseCached:
		return engine.RemoteText
	case x.Reason == engine.ReasonMaxStale:
		return fmt.Sprintf("the cached image was last checked %s, beyond %s", x.Local.Age, d.Describe(policy.KeyMaxStale))
	case d.OnFailure(x.Class) != policy.UseCached && d.Policy == policy.IfDigestChanged:
		return d.Describe(on) + " does not let the cached image do"
	case !grant.Given():
		return noProof(x)
	}
	return d.Describe(policy.KeyPolicy) + " does not let the cached image do"
}

// originsTrouble says how the registry of the name failed, where a mirror has answered in
// its place.
func originsTrouble(x engine.Explanation) string {
	for _, a := range x.Attempts {
		if a.Origin {
			x.Class = a.Class
		}
	}
	return troubleOf(x)
}

// troubleOf says how the registry failed.
func troubleOf(x engine.Explanation) string {
	host := "the registry"
	for _, a := range x.Attempts {
		if a.Class == x.Class && (a.Origin || host == "the registry") {
			host = a.Host
		}
	}
	switch x.Class {
	case failure.Unreachable:
		return host + " is unreachable"
	case failure.Unavailable:
		return host + " is unavailable"
	case failure.RateLimited:
		return host + " limits requests (rate_limited)"
	case failure.NotFound:
		return host + " does not have it (not_found)"
	case failure.Unauthorized, failure.Forbidden:
		return fmt.Sprintf("%s refuses %s (%s)", host, refused(x), x.Class)
	}
	return fmt.Sprintf("the answer of %s is not right (%s)", host, x.Class)
}

// refused names what a registry may have refused in a check.
func refused(x engine.Explanation) string {
	if x.Directives.CheckWith == policy.Manifest {
		return "the manifest, or these credentials"
	}
	return "these credentials"
}

// depends says what would follow from each answer of the registry that was not asked.
func depends(x engine.Explanation) string {
	f := x.Forecast
	var then []string
	if f.Unchanged.Kind != "" {
		then = append(then, "with the node's digest "+follows(f.Unchanged))
	}
	switch {
	case f.CachedConfirmed.Kind != "":
		if f.CachedUnsaid.Do == engine.Reuse {
			then = append(then, "with another "+follows(f.CachedConfirmed)+" unless that is refused to these credentials: then "+follows(f.Changed))
			break
		}
		then = append(then, "with another "+follows(f.CachedConfirmed)+" if that is confirmed for these credentials, too, else "+follows(f.Changed))
	case then == nil:
		then = append(then, "with a digest "+follows(f.Changed))
	default:
		then = append(then, "with another "+changes(f))
	}
	if x.Directives.ResolveFrom == policy.OriginThenMirrors && !x.Local.ByDigest {
		then = append(then, "where the registry is unreachable or unavailable its mirrors are asked first")
	}
	if x.Directives.CheckWith == policy.Manifest {
		then = append(then, "where it refuses the manifest that is a failure, too, by "+x.Directives.Describe(policy.KeyCheckWith))
	}
	useCached, fail := classes(f.UseCached)
	if len(useCached) > 0 {
		then = append(then, "after "+list(useCached)+" the cached image is used")
		then = append(then, "after "+list(fail)+" the pod fails")
	} else {
		then = append(then, "after any failure the pod fails"+noFallback(x))
	}
	hosts, was := asked(x.Hosts), "was"
	if len(hosts) > 1 {
		was = "were"
	}
	return fmt.Sprintf("It depends on %s, which %s not asked: %s.", list(hosts), was, strings.Join(then, "; "))
}
