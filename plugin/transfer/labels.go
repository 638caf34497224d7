// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"slices"
	"strings"

	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// decodeLabels returns the provenance that the labels of content say. It is
// zero where they say nothing.
func decodeLabels(labels map[string]string) provenance.Provenance {
	p := provenance.Provenance{Reference: labels[store.LabelPullSource]}
	p.Hosts, p.More = store.DecodeSources(labels[store.LabelContentSources])
	return p
}

// encodeLabels is the inverse of decodeLabels.
func encodeLabels(p provenance.Provenance) map[string]string {
	labels := map[string]string{}
	if p.Reference != "" {
		labels[store.LabelPullSource] = p.Reference
	}
	if sources := store.EncodeSources(p.Hosts, p.More); sources != "" {
		labels[store.LabelContentSources] = sources
	}
	return labels
}

// pathsOf are the paths that set these labels alone.
func pathsOf(labels map[string]string) (paths []string) {
	for label := range labels {
		paths = append(paths, "labels."+label)
	}
	return paths
}

// sourcesOf returns the sources that a record says; zero where it has no PullSource.
func sourcesOf(s store.State) provenance.Provenance {
	host, _, known := strings.Cut(s.PullSource, "/")
	if !known {
		return provenance.Provenance{}
	}
	p := provenance.Provenance{Reference: s.PullSource, Hosts: s.ContentSources, More: s.MoreSources}
	if len(p.Hosts) == 0 {
		p.Hosts = []string{host}
	}
	return p
}

// applyTo returns the state with the sources of a provenance. An unknown part
// leaves the sources of the state as they are: the record may be older than
// the labels on its content.
func applyTo(s store.State, p provenance.Provenance) store.State {
	if p.Reference != "" {
		s.PullSource = p.Reference
	}
	if len(p.Hosts) == 0 && p.More == 0 {
		return s
	}
	if host, _, ok := strings.Cut(s.PullSource, "/"); ok && !slices.Contains(p.Hosts, host) {
		p = provenance.Provenance{Hosts: []string{host}}.Add(p)
	}
	s.ContentSources, s.MoreSources = nil, p.More
	if len(p.Hosts) > 1 || p.More > 0 || s.PullSource == "" {
		s.ContentSources = p.Hosts
	}
	return s
}

// WithCompared returns the state of a record whose image was compared with all that these sources have served:
// nothing of it is of unknown source. Without a reference there was no comparison.
func WithCompared(s store.State, with provenance.Provenance) store.State {
	if with.Reference == "" {
		return s
	}
	s.UnknownSources, s.Compared = false, true
	return applyTo(s, with)
}

// WithShown returns the state of a record whose layers these hosts have shown that they have, or delivered.
func WithShown(s store.State, hosts []string) store.State {
	s.HasLayers = true
	return applyTo(s, sourcesOf(s).Add(provenance.Provenance{Hosts: hosts}))
}

// WithComparedSince is [WithCompared] after a comparison that took its time. Hosts that are on the record now, and
// were in none of the image's states before, are those of a pull that has fetched some of it meanwhile: they stay.
func WithComparedSince(before []store.State, now store.State, with provenance.Provenance) store.State {
	meanwhile := sourcesOf(now)
	meanwhile.Reference = ""
	more := 0
	for _, s := range before {
		there := slices.Concat(s.ContentSources, sourcesOf(s).Hosts)
		meanwhile.Hosts = slices.DeleteFunc(slices.Clone(meanwhile.Hosts), func(host string) bool { return slices.Contains(there, host) })
		more = max(more, s.MoreSources) // they may be the same
	}
	meanwhile.More = max(0, meanwhile.More-more)
	return WithCompared(now, with.Add(meanwhile))
}

// knownOf returns the first state that knows where all of the image came from, or else the first that
// knows of some; zero where none does.
func knownOf(states []store.State) (known store.State) {
	for _, state := range states {
		switch {
		case state.PullSource != "" && !state.UnknownSources:
			return state
		case known.PullSource == "":
			known = state
		}
	}
	return known
}
