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
	if hosts := labels[store.LabelContentSources]; hosts != "" {
		p.Hosts = strings.Split(hosts, ",")
	}
	return p
}

// encodeLabels is the inverse of decodeLabels. The paths are those that set
// these labels alone.
func encodeLabels(p provenance.Provenance) (labels map[string]string, paths []string) {
	labels = map[string]string{}
	if p.Reference != "" {
		labels[store.LabelPullSource] = p.Reference
	}
	if len(p.Hosts) > 0 {
		labels[store.LabelContentSources] = strings.Join(p.Hosts, ",")
	}
	for label := range labels {
		paths = append(paths, "labels."+label)
	}
	return labels, paths
}

// applyTo returns the state with the sources of a provenance. An unknown part
// leaves the sources of the state as they are: the record may be older than
// the labels on its content.
func applyTo(s store.State, p provenance.Provenance) store.State {
	if p.Reference != "" {
		s.PullSource = p.Reference
	}
	if len(p.Hosts) == 0 {
		return s
	}
	if host, _, ok := strings.Cut(s.PullSource, "/"); ok && !slices.Contains(p.Hosts, host) {
		p = provenance.Provenance{Hosts: []string{host}}.Add(p)
	}
	s.ContentSources = nil
	if len(p.Hosts) > 1 || s.PullSource == "" {
		s.ContentSources = p.Hosts
	}
	return s
}
