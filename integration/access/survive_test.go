// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
	"github.com/pullwarden/pullwarden/store"
)

// survivors are scenes whose proofs, refusals and their absence have to outlive
// the daemon.
type survivors struct {
	*nodetest.Node
	g         *guarded
	private   *scene // alice has a proof
	checked   *scene // bob has one too, by a check
	public    *scene // is open to all
	refused   *scene // alice was refused, bob was not
	preloaded string // was imported
}

func newSurvivors(t *testing.T) survivors {
	t.Helper()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	v := survivors{
		Node: n, g: g, preloaded: "preloaded.test/app:1",
		private: g.scene(t, n, "private/app"), checked: g.scene(t, n, "private/checked"),
		public: g.scene(t, n, "public/app"), refused: g.scene(t, n, "private/refused"),
	}
	for i, s := range []*scene{v.private, v.checked, v.public, v.refused} {
		s.digest = s.push("1", nodetest.Image(int64(i)))
	}
	v.Import(v.preloaded, nodetest.Image(100))
	v.private.wantPull(alice, "Always", v.private.ref(":1"), "Pulled")
	v.checked.wantPull(alice, "Always", v.checked.ref(":1"), "Pulled")
	v.checked.wantPull(bob, "IfNotPresent", v.checked.ref(":1"), "Unchanged")
	v.public.wantPull(nobody, "Always", v.public.ref(":1"), "Pulled")
	v.refused.wantPull(alice, "Always", v.refused.ref(":1"), "Pulled")
	v.refused.wantPull(bob, "IfNotPresent", v.refused.ref(":1"), "Unchanged")
	v.private.waitForWrites()
	g.deny(alice.user, v.refused.repo, true)
	v.refused.wantPull(alice, "Always", v.refused.ref(":1"), "Failed") // and the daemon may end at once
	return v
}

// wantStanding holds who may reuse an image without a check; with the key of
// the fingerprints, or without.
func (v survivors) wantStanding(after string, key bool) {
	v.T.Helper()
	private, checked, public, refused := v.private, v.checked, v.public, v.refused
	proved := map[bool]string{true: "Present", false: "Failed"}[key]
	v.g.Refuse()
	defer private.Restore()
	for _, ref := range []string{private.ref(":1"), private.digest} {
		private.wantPull(alice, "Never", ref, proved)
		private.wantPull(alice, "IfNotPresent", ref, proved)
		for _, who := range []caller{nobody, wrong, eve, bob} {
			private.wantPull(who, "Never", ref, "Failed")
			private.wantPull(who, "IfNotPresent", ref, "Failed")
		}
	}
	checked.wantPull(bob, "Never", checked.ref(":1"), proved)
	refused.wantPull(alice, "Never", refused.ref(":1"), "Failed")
	refused.wantPull(alice, "Never", refused.digest, "Failed")
	refused.wantPull(bob, "Never", refused.ref(":1"), proved)
	public.wantPull(nobody, "Never", public.ref(":1"), "Present")
	public.wantPull(eve, "Never", public.ref(":1"), "Present")
	private.wantPull(nobody, "Never", v.preloaded, "Present")
	if v.T.Failed() {
		v.T.Fatalf("after %s", after)
	}
}

// keyFile is where the key of the fingerprints is.
func (v survivors) keyFile() string {
	return v.Path("root", "io.containerd.image-policy.v1.pullwarden", "key")
}

// wantKey holds that there is a key that only root can read.
func (v survivors) wantKey() {
	v.T.Helper()
	info, err := os.Stat(v.keyFile())
	if err != nil || info.Mode() != 0o600 || info.Size() != 64 {
		v.T.Errorf("the key's file is %v, %v", info, err)
	}
}

// bindKey makes the key's file as the machine with that id would have made it.
func (v survivors) bindKey(key []byte, id string) error {
	machineID := v.Path("machine-id")
	err := os.WriteFile(machineID, []byte(id), 0o600)
	if err == nil {
		err = os.WriteFile(v.keyFile(), key[:32], 0o600)
	}
	if err == nil {
		_, err = store.OpenKey(v.keyFile(), machineID)
	}
	return err
}

// TestAccessOutlives holds that proofs, refusals and their absence outlive
// restarts and kills, and that no proof outlives the key, nor is one good that
// was copied to another machine together with its key.
func TestAccessOutlives(t *testing.T) {
	t.Parallel()
	v := newSurvivors(t)
	v.Kill()
	v.Restart()
	v.wantStanding("a kill", true)
	v.Restart()
	v.wantStanding("a restart", true)

	key, err := os.ReadFile(v.keyFile())
	if err != nil || len(key) != 64 {
		t.Fatalf("a key of %d bytes: %v", len(key), err)
	}
	v.wantKey()
	for what, damage := range map[string]func() error{
		"the loss of the key":      func() error { return os.Remove(v.keyFile()) },
		"a key cut short":          func() error { return os.WriteFile(v.keyFile(), key[:16], 0o600) },
		"a key too long":           func() error { return os.WriteFile(v.keyFile(), append(key[:32:32], 'x'), 0o600) },
		"an empty key":             func() error { return os.WriteFile(v.keyFile(), nil, 0o600) },
		"a key of zeros":           func() error { return os.WriteFile(v.keyFile(), make([]byte, 32), 0o600) },
		"another key":              func() error { return os.WriteFile(v.keyFile(), bytes.Repeat([]byte{1}, 32), 0o600) },
		"a key others can read":    func() error { return os.Chmod(v.keyFile(), 0o644) },
		"a key of another machine": func() error { return v.bindKey(key, strings.Repeat("4f", 16)) },
	} {
		v.Stop()
		v.Must(damage())
		v.Restart()
		v.wantStanding(what, false)
		v.wantKey()
		v.Stop()
		v.Must(os.WriteFile(v.keyFile(), key, 0o600))
		v.Must(os.Chmod(v.keyFile(), 0o600))
		v.Restart()
		v.wantStanding("the key is back after "+what, true)
	}
	v.Stop()
	v.Must(os.WriteFile(v.keyFile(), key[:32], 0o600)) // as it was before keys were bound to machines
	v.Start()
	v.wantStanding("an upgrade", true)
	v.wantKey()
	v.Must(os.Remove(v.keyFile()))
	v.Restart()
	v.private.wantPull(alice, "IfNotPresent", v.private.ref(":1"), "Unchanged")
	v.private.wantPull(alice, "Never", v.private.ref(":1"), "Present")
	v.private.wantPull(nobody, "Never", v.private.ref(":1"), "Failed")
}
