// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"slices"
	"strings"
)

const (
	maxHostNames = 16  // that an error tells
	maxHostName  = 255 // bytes, as in DNS (RFC 1035, section 2.3.4)
	otherHosts   = "others"
)

// hostNames are some of many hosts: an image names as many as it likes.
type hostNames struct {
	names  []string
	others bool // there are more
}

func (h *hostNames) add(name string) {
	switch {
	case slices.Contains(h.names, name):
	case len(name) > maxHostName || len(h.names) == maxHostNames:
		h.others = true
	default:
		h.names = append(h.names, strings.Clone(name)) // the rest of the URL may be much longer
	}
}

// all returns the hosts that an error tells, and whether there are others.
func (h *hostNames) all() []string {
	if h.others {
		return append(slices.Clone(h.names), otherHosts)
	}
	return slices.Clone(h.names)
}

// unfollow takes note of hosts of urls that are not followed.
func (l *fetchLog) unfollow(hosts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range hosts {
		l.notAsked.add(h)
	}
}

// unfollowed returns the hosts of urls that are not followed.
func (l *fetchLog) unfollowed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.notAsked.all()
}
