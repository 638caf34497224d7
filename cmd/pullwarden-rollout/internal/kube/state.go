// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pullwarden/pullwarden/cmd/pullwarden-rollout/internal/rollout"
)

// The keys of the ConfigMap. Earlier versions kept the state as plain JSON under stateKey.
const (
	packedKey  = "state.json.gz" // in its binaryData
	stateKey   = "state.json"
	summaryKey = "summary"
)

// packedElsewhere is under stateKey now. No earlier version can read it as a state, so that one that is put back
// does nothing, where it would begin with an empty state and lose what is under way.
const packedElsewhere = `"It is in binaryData, as state.json.gz."`

// room bounds a packed state in which nodes are begun, in bytes. The API server takes a mebibyte in all: a quarter is
// left for the summary, and for what the same nodes may add in other phases and with another target.
const room = corev1.MaxSecretSize / 4 * 3

// Fits implements [rollout.Ledger].
func (c *Cluster) Fits(s rollout.State) bool {
	packed, err := pack(s, c.room)
	return err == nil && len(packed) <= c.room
}

// pack returns the state as it is kept. Reasons are cut where there is no room for them, in bytes: the log has them in
// full. A state of so many nodes that it does not fit even so is returned as well.
func pack(s rollout.State, room int) ([]byte, error) {
	packed, err := compress(s)
	for _, most := range []int{256, 64, 16, 0} { // in bytes
		if err != nil || len(packed) <= room {
			break
		}
		if cutReasons(&s, most) {
			packed, err = compress(s)
		}
	}
	return packed, err
}

// cutReasons bounds the reasons, in bytes, and reports whether that has cut any. A node that has a reason, and stops the
// rollout by it, keeps one.
func cutReasons(s *rollout.State, most int) (cut bool) {
	const ellipsis = "…"
	s.Nodes = maps.Clone(s.Nodes)
	for name, r := range s.Nodes {
		if len(r.Reason) > most+len(ellipsis) {
			r.Reason = strings.ToValidUTF8(r.Reason[:most], "") + ellipsis
			s.Nodes[name], cut = r, true
		}
	}
	return cut
}

func compress(s rollout.State) ([]byte, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := json.NewEncoder(z).Encode(s); err != nil {
		return nil, err
	}
	err := z.Close()
	return packed.Bytes(), err
}

// unpack returns the state in a ConfigMap, which may be of an earlier version. Without any it is empty.
func unpack(m *corev1.ConfigMap) (s rollout.State, err error) {
	text := []byte(m.Data[stateKey])
	if packed, there := m.BinaryData[packedKey]; there {
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return s, err
		}
		if text, err = io.ReadAll(z); err != nil { // with its checksum
			return s, err
		}
	}
	if len(text) == 0 {
		return s, nil
	}
	err = json.Unmarshal(text, &s)
	return s, err
}
