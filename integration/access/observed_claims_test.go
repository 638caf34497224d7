// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// containerd's own pull of an observed pod takes neither the size nor the type that a mirror claims of a manifest into the record
// of what is there, which others fall back to.
func TestClaimsOfAMirrorToAnObservedPod(t *testing.T) {
	t.Parallel()
	for claim, script := range map[string]func(*nodetest.Node) resolvertest.ScriptFunc{
		"size": func(n *nodetest.Node) resolvertest.ScriptFunc {
			return claimsOneMore(n, nodetest.Image(1), "/manifests/")
		},
		"type": func(*nodetest.Node) resolvertest.ScriptFunc { return claimsNoManifest },
	} {
		for _, setting := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
			for _, byDigest := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, by digest is %v", claim, setting, byDigest), func(t *testing.T) {
					t.Parallel()
					n := nodetest.New(t, nodetest.CRIImages(setting))
					mirror := resolvertest.New(t)
					n.Serve("registry.test", n.Registry, mirror)
					n.WriteRules("10.toml", observedRules)
					digest := n.Push("app:1", nodetest.Image(1))
					n.PushTo(mirror, "app:1", nodetest.Image(1))
					ref := nodetest.Named("app:1")
					if byDigest {
						ref = nodetest.Named("app@" + digest.String())
					}
					n.MustPull(ref, node.Pod("prod", "pod"))
					before, _ := n.Record(ref)
					mirror.Script(script(n))
					_, _ = n.Pull(ref, node.Pod("dev", "pod"))
					time.Sleep(time.Second) // what was observed is recorded after the answer
					now, _ := n.Record(ref)
					nodetest.Want(t, "size", now.Target.Size, before.Target.Size)
					nodetest.Want(t, "type", now.Target.MediaType, before.Target.MediaType)
					mirror.Refuse()
					n.Registry.Refuse()
					n.MustPull(ref, node.Pod("prod", "pod"))
					n.MustPull(ref, node.Pod("prod", "pod"), node.Hint("policy", "IfNotPresent"))
				})
			}
		}
	}
}

// claimsNoManifest answers with manifests as if they were something else.
func claimsNoManifest(w http.ResponseWriter, r *http.Request, next http.Handler) {
	answer := httptest.NewRecorder()
	next.ServeHTTP(answer, r)
	maps.Copy(w.Header(), answer.Header())
	if strings.Contains(r.URL.Path, "/manifests/") {
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// A mirror claims another size of a manifest that is on the node, for a name that is new, to an observed pod. Pods of another runtime
// handler have the image unpacked for theirs all the same.
func TestClaimOfAMirrorThatCameFirst(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.NativeRuntime(), nodetest.CRIImages(setting))
			mirror := resolvertest.New(t)
			n.Serve("registry.test", n.Registry, mirror)
			n.WriteRules("10.toml", observedRules)
			for _, tag := range []string{"app:1", "other/app:1"} {
				n.Push(tag, nodetest.Image(1))
				n.PushTo(mirror, tag, nodetest.Image(1))
			}
			n.MustPull(nodetest.Named("app:1"), node.Pod("prod", "pod"))
			undo := mirror.Script(claimsOneMore(n, nodetest.Image(1), "/manifests/"))
			ref := nodetest.Named("other/app:1")
			n.MustPull(ref, node.Pod("dev", "pod"))
			time.Sleep(time.Second) // what was observed is recorded after the answer
			undo()
			for _, policy := range []string{"IfNotPresent", "IfDigestChanged"} {
				began := n.Mark()
				n.MustPull(ref, node.Pod("prod", "pod"), node.RuntimeHandler("native"), node.Hint("policy", policy))
				for _, line := range n.LogLines(began, "cannot be completed") { // the container would unpack it
					t.Errorf("%s: %s", policy, line)
				}
			}
			n.WantRunnableBy("native", ref)
		})
	}
}
