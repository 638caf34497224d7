// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// A pull is joined by a pod whose caller was refused meanwhile, and to whom the registry tells the digest, and refuses the
// manifest: the pod has no image by it, with a pull_deadline and without.
func TestJoinedPullOfAProofThatEnds(t *testing.T) {
	for what, directives := range map[string]string{"with a deadline": `policy = "IfDigestChanged"` + "\npull_deadline = \"1h\"", "without": `policy = "IfDigestChanged"`} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{remote: second, record: cachedImage(first, now), pullTakes: 10 * time.Second}
				n.record.Access[store.Anonymous] = store.Proof{At: now, By: "registry.test"} // what it was before was everybody's
				e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" + rule(directives))
				e.Now = time.Now
				pod := arrive(t, e, n.request(nil))
				time.Sleep(time.Second)
				n.mu.Lock()
				n.checkFails = failure.Forbidden
				n.mu.Unlock()
				refused := n.request(nil)
				refused.Namespace, refused.PodNamespace = "b", "b"
				if o, _ := e.Ensure(t.Context(), refused); o.Kind != Failed {
					t.Fatal(o.Kind)
				}
				n.mu.Lock()
				n.checkFails, n.quarantined = failure.None, true
				n.mu.Unlock()
				time.Sleep(time.Second)
				next := arrive(t, e, n.request(nil))
				<-pod
				if o := (<-next).outcome; o.Kind != Failed || o.Class != failure.Forbidden {
					t.Errorf("the next pod: %s (%s) of %s, %v", o.Kind, o.Reason, o.Digest, o.Err)
				}
			})
		})
	}
}

// Nor has it an image of which a mirror has told the pull in the place of a registry that is back as the pod asks, and
// refuses it the manifest.
func TestJoinedPullOfAMirrorsAnswer(t *testing.T) {
	for what, directives := range map[string]string{"with a deadline": "pull_deadline = \"1h\"", "without": ""} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{remote: second, record: cachedImage(first, now), pullTakes: 10 * time.Second, inNeed: true}
				e := n.engine(rule(`policy = "IfDigestChanged"` + "\nresolve_from = \"OriginThenMirrors\"\n" + directives))
				e.Now = time.Now
				pod := arrive(t, e, n.request(nil))
				time.Sleep(time.Second)
				n.mu.Lock()
				n.inNeed, n.quarantined = false, true
				n.mu.Unlock()
				next := arrive(t, e, n.request(nil))
				<-pod
				if o := (<-next).outcome; o.Kind != Failed || o.Class != failure.Forbidden {
					t.Errorf("the next pod: %s (%s) of %s, %v", o.Kind, o.Reason, o.Digest, o.Err)
				}
			})
		})
	}
}

// The manifest of an index's platform is put in quarantine while its layers are downloaded. The next pod, which joins that
// and has the manifest read by its check, has no image by it, with a pull_deadline and without.
func TestJoinedPullOfAQuarantinedPlatform(t *testing.T) {
	for what, directives := range map[string]string{
		"with a deadline": "\npull_deadline = \"1h\"", "without": "",
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := changedNode()
				n.manifest = digest.FromString("manifest")
				n.pullTakes = 10 * time.Second
				e := n.engine(rule("max_age = \"1h\"", `policy = "IfDigestChanged"`+"\ncheck_with = \"Manifest\""+directives))
				e.Now = time.Now
				one := arrive(t, e, n.request(nil))
				time.Sleep(time.Second)
				two := arrive(t, e, n.request(nil))
				n.mu.Lock()
				n.onStore = func(*store.State) { n.quarantined = true } // pod one's source has been delivered it
				n.mu.Unlock()
				<-one
				if o := (<-two).outcome; o.Kind != Failed || o.Class != failure.Forbidden {
					t.Errorf("the next pod: %s (%s)", o.Kind, o.Reason)
				}
			})
		})
	}
}
