// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestConfigsTellNoPartOfASecret has a registry write the password that it was sent where a config has a
// time. Go's time quotes what it cannot read of it, behind what it could.
func TestConfigsTellNoPartOfASecret(t *testing.T) {
	t.Parallel()
	who := caller{"carol", "2024-summer-xyzabc"}
	metrics := nodetest.FreeAddress(t)
	n := nodetest.Start(t, nodetest.MetricsAt(metrics))
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test", who)
	g.serve(n)
	img := resolvertest.Image(7, 1, 10)
	f, m := forge(n, img), manifestOf(n, img)
	var config map[string]any
	n.Must(json.Unmarshal(f.served[m.Config.Digest], &config))
	config["created"] = who.password
	data, err := json.Marshal(config)
	n.Must(err)
	m.Config.Digest, m.Config.Size = digest.FromBytes(data), int64(len(data))
	f.served[m.Config.Digest] = data
	f.top = f.add(t, m)
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") || !strings.HasPrefix(r.URL.Path, "/v2/private/app") {
			next.ServeHTTP(w, r)
			return
		}
		f.serve(w, r)
	})
	_, err = n.Pull("r.test/private/app:1", who.secret(), node.Hint("policy", "Always"))
	if err == nil {
		t.Fatal("the pull succeeds")
	}
	t.Log(err)
	if strings.Contains(err.Error(), "summer-xyzabc") {
		t.Error("the error has a part of the password")
	}
	for where, b := range everythingTold(n, metrics) {
		if !strings.Contains(where, "io.containerd.") && bytes.Contains(b, []byte("summer-xyzabc")) {
			t.Errorf("%s has a part of the password", where)
		}
	}
}
