// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"
)

// Blocked reports whether Trouble would say why, of the host or of a token server that it has named. It asks nobody.
func (v *View) Blocked(key Key, left time.Duration) bool {
	if v == nil {
		return false
	}
	blocked := func(key Key) bool { return v.shared.Blocked(key) || v.failed(key, left) != nil }
	return blocked(key) || slices.ContainsFunc(v.tokenServers(key), blocked)
}

// tokenServers are those that a configured host has named, as far as something may speak against asking them.
func (v *View) tokenServers(host Key) []Key {
	if host.For != "" {
		return nil
	}
	v.mu.Lock()
	keys := v.own.Keys()
	v.mu.Unlock()
	keys = slices.DeleteFunc(keys, func(key Key) bool { return !key.tokensOf(host) })
	keys = append(keys, v.shared.tokenServers(host)...)
	if scope, known := v.rememberedScope(); known {
		v.shared.mu.Lock()
		defer v.shared.mu.Unlock()
		keys = append(keys, v.shared.memory.tokens[memoryKey{scope, host}]...)
	}
	return keys
}

// Want is somebody's wish to ask those hosts and their token servers: those in trouble are probed where the last verdict is
// not fresh.
func (v *View) Want(hosts ...Key) {
	if v != nil {
		v.shared.want(hosts)
	}
}

// tokenServers are those in trouble that a configured host has named.
func (b *Breakers) tokenServers(host Key) (keys []Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, s := range b.all {
		if s.open() && key.tokensOf(host) {
			keys = append(keys, key)
		}
	}
	return keys
}
