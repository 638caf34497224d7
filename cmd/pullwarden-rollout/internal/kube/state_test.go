// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/sha512"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pullwarden/pullwarden/cmd/pullwarden-rollout/internal/rollout"
)

// scale divides nodes and room: a state grows in proportion to its nodes, and the race detector makes gzip slow.
const scale = 20

var phases = []rollout.Phase{
	rollout.Installing, rollout.Settling, rollout.Installed, rollout.Undoing, rollout.Undone, rollout.Restoring, rollout.Failed, rollout.Stuck,
}

// cloudName names nodes as clouds do, and randomName as nothing can compress.
func cloudName(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", i/2500, i/250%10, i%250)
}

func randomName(i int) string { return strings.ToLower(noise(i)[:63]) }

// noise is a text of a hundred letters and digits.
func noise(i int) string {
	sum := sha512.Sum512([]byte(strconv.Itoa(i)))
	return base32.StdEncoding.EncodeToString(sum[:])[:100]
}

// stateOf returns a state with records of the greatest size.
func stateOf(nodes int, name func(int) string, phase func(int) rollout.Phase, reason func(int) string) rollout.State {
	s := rollout.State{UndoOf: strings.Repeat("registry", 25), Nodes: map[string]rollout.Record{}}
	for i := range nodes {
		sum := sha512.Sum512([]byte("node " + strconv.Itoa(i)))
		random := hex.EncodeToString(sum[:])
		s.Nodes[name(i)] = rollout.Record{
			UID:   strings.Join([]string{random[:8], random[8:12], random[12:16], random[16:20], random[20:32]}, "-"),
			Phase: phase(i), Target: s.UndoOf, Since: time.Unix(1_800_000_000+int64(7*i), 0).UTC(),
			Pod: "pullwarden-installing-" + random[32:48], Reason: reason(i),
		}
	}
	return s
}

func none(int) string { return "" }

func all(p rollout.Phase) func(int) rollout.Phase { return func(int) rollout.Phase { return p } }

func mixed(i int) rollout.Phase { return phases[i%len(phases)] }

// Kubernetes supports 5,000 nodes. They need half of the room, whatever their names are and however many of them fail.
func TestManyNodesFit(t *testing.T) {
	t.Parallel()
	plain := func(i int) string {
		return fmt.Sprintf("the node has not been Ready for 1m30s within 10m0s, with containerd://2.%d.2", i%9)
	}
	for name, c := range map[string]struct {
		state rollout.State
		part  int // of the room, in percent
	}{
		"installed": {stateOf(5000/scale, randomName, all(rollout.Installed), none), 60},
		"under way": {stateOf(5000/scale, randomName, all(rollout.Installing), none), 60},
		"failed":    {stateOf(5000/scale, randomName, all(rollout.Failed), plain), 60},
		"mixed":     {stateOf(5000/scale, randomName, mixed, plain), 60},
		"cloud":     {stateOf(15000/scale, cloudName, all(rollout.Installed), none), 80},
	} {
		packed, err := pack(c.state, room/scale)
		if err != nil || len(packed)*100 > room/scale*c.part {
			t.Errorf("%s: %d bytes: %v", name, len(packed), err)
		}
		got, err := unpack(&corev1.ConfigMap{BinaryData: map[string][]byte{packedKey: packed}})
		if err != nil || got.UndoOf != c.state.UndoOf || !maps.Equal(got.Nodes, c.state.Nodes) {
			t.Errorf("%s: another state comes back: %v", name, err)
		}
	}
}

// Reasons are cut where they have no room, none of them goes, and what was cut once stays the same.
func TestReasonsAreCut(t *testing.T) {
	t.Parallel()
	s := stateOf(5000/scale, randomName, all(rollout.Stuck), func(i int) string {
		if i%10 == 0 {
			return "brief"
		}
		return strings.Repeat("ä", 3) + noise(i) + noise(i+100_000) + noise(i+200_000)
	})
	var once rollout.State
	for range 2 {
		packed, err := pack(s, room/scale)
		if err != nil || len(packed) > room/scale {
			t.Fatalf("%d bytes: %v", len(packed), err)
		}
		once = s
		if s, err = unpack(&corev1.ConfigMap{BinaryData: map[string][]byte{packedKey: packed}}); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(once.Nodes, s.Nodes) {
		t.Error("reasons that were cut are cut again")
	}
	for i := range 5000 / scale {
		r := s.Nodes[randomName(i)].Reason
		if i%10 == 0 && r != "brief" || i%10 != 0 && (!strings.HasPrefix(r, "äää"+noise(i)[:10]) || !strings.HasSuffix(r, "…")) {
			t.Fatalf("node %d has the reason %q", i, r)
		}
	}
}

// Where nodes have just fitted, the API server takes them in all other phases too, with reasons and another target.
func TestRoomForOtherPhases(t *testing.T) {
	t.Parallel()
	const nodes, summary = 500, 16 << 10
	before := stateOf(nodes, cloudName, all(rollout.Installing), none)
	after := stateOf(nodes, cloudName, mixed, func(i int) string { return strings.Repeat("…", i%3%2) })
	for i := range nodes {
		name := cloudName(i)
		b, a := before.Nodes[name], after.Nodes[name]
		b.Since = time.Unix(1_800_000_000, 0).UTC()
		before.Nodes[name] = b
		a.Since = a.Since.Add(time.Duration(noise(i)[0]) * time.Hour)
		if noise(i)[1]%2 == 0 {
			a.Target = noise(1) + noise(2)
		}
		after.Nodes[name] = a
	}
	was, err := pack(before, room)
	if err != nil {
		t.Fatal(err)
	}
	is, err := pack(after, room)
	if err != nil || len(is)*room > len(was)*(corev1.MaxSecretSize-summary) {
		t.Errorf("%d bytes of %d: %v", len(is), len(was), err)
	}
}

// What no cutting of reasons makes small enough does not fit.
func TestTooManyNodes(t *testing.T) {
	t.Parallel()
	c := &Cluster{room: room / scale}
	for nodes, fits := range map[int]bool{5000 / scale: true, 15000 / scale: false} {
		s := stateOf(nodes, randomName, all(rollout.Failed), none)
		packed, err := pack(s, c.room)
		if err != nil || len(packed) <= c.room != fits || c.Fits(s) != fits {
			t.Errorf("%d nodes have %d bytes: %v", nodes, len(packed), err)
		}
	}
}

// newStateServer serves one ConfigMap as an API server does, scaled down, and returns a cluster whose state is there.
func newStateServer(t *testing.T, m *corev1.ConfigMap) *Cluster {
	t.Helper()
	var mu sync.Mutex
	m.TypeMeta, m.ResourceVersion = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, "1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		refuse := func(code int, reason metav1.StatusReason) {
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason})
		}
		if r.Method == http.MethodPut {
			var put corev1.ConfigMap
			if err := json.NewDecoder(r.Body).Decode(&put); err != nil {
				t.Error(err)
			}
			size := 0
			for _, v := range put.Data {
				size += len(v)
			}
			for _, v := range put.BinaryData {
				size += len(v)
			}
			switch version, _ := strconv.Atoi(m.ResourceVersion); {
			case put.ResourceVersion != m.ResourceVersion:
				refuse(http.StatusConflict, metav1.StatusReasonConflict)
				return
			case size > corev1.MaxSecretSize/scale:
				refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
				return
			default:
				*m = put
				m.ResourceVersion = strconv.Itoa(version + 1)
			}
		}
		_ = json.NewEncoder(w).Encode(m)
	}))
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL, QPS: -1}, "pullwarden", "rollout", "", corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	c.room /= scale
	return c
}

// A state that an earlier version has written is read, and replaced by one that no earlier version takes for an empty one.
func TestStateOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	m := &corev1.ConfigMap{Data: map[string]string{
		"state.json": `{"undoOf":"v1","nodes":{"a":{"uid":"u","phase":"Stuck","target":"v1","since":"2026-11-21T16:13:20Z","pod":"p","reason":"why"}}}`,
		"summary":    "old", "other": "kept",
	}}
	c := newStateServer(t, m)
	s, version, err := c.Load(t.Context())
	want := rollout.Record{UID: "u", Phase: rollout.Stuck, Target: "v1", Since: time.Date(2026, 11, 21, 16, 13, 20, 0, time.UTC), Pod: "p", Reason: "why"}
	if err != nil || s.UndoOf != "v1" || len(s.Nodes) != 1 || s.Nodes["a"] != want {
		t.Fatalf("%+v, %v", s, err)
	}
	many := stateOf(5000/scale, randomName, mixed, none)
	if err := c.Save(t.Context(), version, many, "new"); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(t.Context(), version, s, "late"); !errors.Is(err, rollout.ErrChanged) {
		t.Errorf("a late one is saved: %v", err)
	}
	if s, version, err = c.Load(t.Context()); err != nil || version != "2" || s.UndoOf != many.UndoOf || !maps.Equal(s.Nodes, many.Nodes) {
		t.Errorf("another state comes back, of version %s: %v", version, err)
	}
	if m.Data["summary"] != "new" || m.Data["other"] != "kept" {
		t.Errorf("the ConfigMap has %q", m.Data)
	}
	if err := json.Unmarshal([]byte(m.Data["state.json"]), new(rollout.State)); err == nil {
		t.Errorf("an earlier version reads %q", m.Data["state.json"])
	}
}

// A state that cannot be read is none that is empty.
func TestUnreadableState(t *testing.T) {
	t.Parallel()
	packed, err := pack(stateOf(100, cloudName, mixed, none), room)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*corev1.ConfigMap{
		"empty":     {BinaryData: map[string][]byte{packedKey: {}}},
		"truncated": {BinaryData: map[string][]byte{packedKey: packed[:len(packed)-4]}},
		"removed":   {Data: map[string]string{stateKey: packedElsewhere}},
	} {
		if _, _, err := newStateServer(t, m).Load(t.Context()); err == nil || !strings.Contains(err.Error(), "the state in the ConfigMap pullwarden/rollout:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
