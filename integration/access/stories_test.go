// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/base64"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// stories are those of KEP-2535 that a runtime can see.
var stories = []story{
	{"same secret", false, []step{
		pulls(alice, "IfNotPresent", "Pulled"),
		pulls(alice, "IfNotPresent", "Present"),
		pulls(alice, "Never", "Present"),
		down,
		pulls(alice, "IfNotPresent", "Present"),
		pulls(alice, "Never", "Present"),
		pulls(alice, "IfDigestChanged", "UsedCached"),
		pulls(alice, "Always", "Failed"),
		pulls(alice, "Never", "Present"),
	}},
	{"same credentials in another secret", false, []step{
		pulls(alice, "Always", "Pulled"),
		pulls(alice, "Never", "Present", node.Pod("other", "pod")),
		pulls(alice, "IfNotPresent", "Present", node.Pod("other", "pod")),
		pulls(alice, "Never", "Present", node.Auth(&runtimeapi.AuthConfig{Auth: base64.StdEncoding.EncodeToString([]byte(alice.user + ":" + alice.password))})),
	}},
	{"another secret that is good, too", false, []step{
		pulls(alice, "Always", "Pulled"),
		pulls(bob, "Never", "Failed"),
		pulls(bob, "IfNotPresent", "Unchanged"),
		pulls(bob, "Never", "Present"),
		pulls(bob, "IfNotPresent", "Present"),
		pulls(alice, "Never", "Present"),
	}},
	{"no secret", false, []step{
		pulls(alice, "Always", "Pulled"),
		pulls(nobody, "IfNotPresent", "Failed"),
		pulls(nobody, "Never", "Failed"),
		pulls(nobody, "Never", "Failed", node.Auth(&runtimeapi.AuthConfig{})),
		pulls(nobody, "Never", "Failed", node.Auth(&runtimeapi.AuthConfig{RegistryToken: alice.password})),
		pulls(alice, "Never", "Present"),
	}},
	{"wrong secret", false, []step{
		pulls(alice, "Always", "Pulled"),
		pulls(wrong, "IfNotPresent", "Failed"),
		pulls(wrong, "Never", "Failed"),
		pulls(eve, "IfNotPresent", "Failed"),
		pulls(eve, "Never", "Failed"),
		pulls(caller{alice.password, alice.user}, "Never", "Failed"),
		pulls(caller{"", alice.password}, "Never", "Failed"),
		pulls(caller{alice.user, ""}, "Never", "Failed"),
		pulls(alice, "Never", "Present"),
	}},
	{"pulled without credentials", true, []step{
		pulls(nobody, "IfNotPresent", "Pulled"),
		pulls(nobody, "IfNotPresent", "Present"),
		pulls(alice, "IfNotPresent", "Present"),
		pulls(eve, "Never", "Present"),
		pulls(wrong, "IfNotPresent", "Present"),
		down,
		pulls(eve, "IfDigestChanged", "UsedCached"),
		up,
		pulls(nobody, "Always", "Unchanged"),
	}},
	{"public, pulled with credentials", true, []step{
		pulls(alice, "Always", "Pulled"),
		pulls(nobody, "IfNotPresent", "~"), // a registry that asks nobody has told so already
		pulls(nobody, "Never", "Present"),
		pulls(eve, "Never", "Present"),
	}},
	{"preloaded", false, []step{
		preloads(":1"),
		pulls(nobody, "Never", "Present"),
		pulls(wrong, "IfNotPresent", "Failed"), // the registry says whose it is
		pulls(eve, "IfNotPresent", "Failed"),
		down,
		pulls(eve, "IfDigestChanged", "UsedCached"),
		pulls(wrong, "IfNotPresent", "Present"), // nobody can say
		up,
		pulls(nobody, "IfNotPresent", "Failed"),
		pulls(nobody, "Always", "Failed"),
		pulls(nobody, "Never", "Present"),
	}},
	{"preloaded, then checked", false, []step{
		preloads(":1"),
		pulls(alice, "Always", "Unchanged"),
		pulls(alice, "Never", "Present"),
		pulls(nobody, "Never", "Failed"),
		pulls(nobody, "IfNotPresent", "Failed"),
		pulls(bob, "IfNotPresent", "Unchanged"),
	}},
	{"preloaded, then asked for", false, []step{
		preloads(":1"),
		pulls(alice, "IfNotPresent", "Unchanged"),
		pulls(alice, "IfNotPresent", "Present"),
		pulls(nobody, "Never", "Failed"),
		pulls(eve, "IfNotPresent", "Failed"),
	}},
	{"preloaded under another name", false, []step{
		func(s *scene) { s.Import(s.elsewhere(), nodetest.Image(s.seed)) },
		pulls(alice, "IfNotPresent", "Pulled"),
		pulls(nobody, "IfNotPresent", "Failed"),
		pulls(nobody, "Never", "Failed"),
		func(s *scene) { s.wantPull(nobody, "Never", s.elsewhere(), "Present") },
		func(s *scene) { s.wantPull(wrong, "IfNotPresent", s.elsewhere(), "Present") },
	}},
	{"pulled under another name first", false, []step{
		pulls(alice, "IfNotPresent", "Pulled"),
		func(s *scene) { s.Import(s.elsewhere(), nodetest.Image(s.seed)) },
		func(s *scene) { s.wantPull(nobody, "Never", s.elsewhere(), "Present") },
		pulls(nobody, "Never", "Failed"),
		pulls(alice, "Never", "Present"),
	}},
	{"the same content in another private repository", false, []step{
		pulls(alice, "Always", "Pulled"),
		func(s *scene) {
			other := s.sibling("-other")
			other.g.deny(alice.user, other.repo, true)
			s.wantPull(bob, "Always", other.ref(":1"), "Pulled")
			s.wantPull(alice, "Never", other.ref(":1"), "Failed")
			s.wantPull(alice, "IfNotPresent", other.ref(":1"), "Failed")
			s.wantPull(bob, "Never", other.ref(":1"), "Present")
		},
		pulls(bob, "Never", "Failed"),
		pulls(alice, "Never", "Present"),
	}},
	{"the same content in a public repository", false, []step{
		pulls(alice, "Always", "Pulled"),
		func(s *scene) { s.wantPull(nobody, "IfNotPresent", s.inPublic(), "Pulled") },
		pulls(nobody, "Never", "Failed"),
		pulls(nobody, "IfNotPresent", "Failed"),
		func(s *scene) { s.wantPull(wrong, "Never", s.inPublic(), "Present") },
	}},
	{"the same content in a public repository before", false, []step{
		func(s *scene) { s.wantPull(nobody, "IfNotPresent", s.inPublic(), "Pulled") },
		pulls(nobody, "IfNotPresent", "Failed"),
		pulls(nobody, "Never", "Failed"),
		pulls(alice, "IfNotPresent", "Pulled"),
		pulls(nobody, "Never", "Failed"),
		func(s *scene) { s.wantPull(eve, "Never", s.inPublic(), "Present") },
	}},
	{"by digest", false, []step{
		pulls(alice, "Always", "Pulled"),
		pullsDigest(alice, "Always", "Present"),
		pullsDigest(alice, "Never", "Present"),
		pullsDigest(nobody, "IfNotPresent", "Failed"),
		pullsDigest(nobody, "Never", "Failed"),
		pullsDigest(wrong, "Always", "Failed"),
		pullsDigest(bob, "Always", "Unchanged"),
		pullsDigest(bob, "Never", "Present"),
		pulls(bob, "Never", "Present"),
	}},
	{"pulled by digest", false, []step{
		pullsDigest(alice, "IfNotPresent", "Pulled"),
		pullsDigest(nobody, "Never", "Failed"),
		pullsDigest(bob, "IfNotPresent", "Unchanged"),
		pulls(nobody, "Never", "Failed"),
		pulls(alice, "IfNotPresent", "Pulled"), // there is no record of the tag
	}},
	{"another tag of the same digest", false, []step{
		func(s *scene) { s.push("2", nodetest.Image(s.seed)) },
		pulls(alice, "Always", "Pulled"),
		pullsObject(":2", bob, "Always", "Pulled"),
		pulls(bob, "Never", "Present"), // of this repository at this digest
		pullsObject(":2", alice, "Never", "Present"),
		pullsObject(":2", nobody, "Never", "Failed"),
	}},
	{"another tag of another digest", false, []step{
		func(s *scene) { s.push("2", nodetest.Image(s.seed+1000)) },
		pulls(alice, "Always", "Pulled"),
		pullsObject(":2", bob, "Always", "Pulled"),
		pulls(bob, "Never", "Failed"),
		pullsObject(":2", alice, "Never", "Failed"),
	}},
	{"the tag moves between proofs", false, []step{
		pulls(alice, "Always", "Pulled"),
		func(s *scene) { s.push("1", nodetest.Image(s.seed+1000)) },
		pulls(bob, "IfNotPresent", "Unchanged"), // what is cached
		pulls(bob, "Never", "Present"),
		pulls(bob, "Always", "Pulled"),
		pulls(alice, "Never", "Failed"),
		pullsDigest(alice, "Never", "Present"), // the first one
		pulls(alice, "IfNotPresent", "Unchanged"),
		pulls(alice, "Never", "Present"),
		func(s *scene) { s.push("1", nodetest.Image(s.seed)) }, // and back
		pulls(alice, "Always", "Pulled"),
		pulls(bob, "Never", "Present"),
		pulls(nobody, "Never", "Failed"),
	}},
	{"removed and pulled again", false, []step{
		pulls(alice, "Always", "Pulled"),
		func(s *scene) { s.Remove(s.ref(":1")) },
		pulls(nobody, "IfNotPresent", "Failed"),
		pulls(alice, "Never", "Failed"),
		pulls(bob, "IfNotPresent", "Pulled"),
		pulls(alice, "Never", "Failed"), // the proof went with the image
	}},
	{"inside max_age", false, []step{
		pulls(alice, "Always", "Pulled"),
		pulls(alice, "Always", "Fresh", node.Hint("max-age", "1h")),
		pulls(wrong, "Always", "Failed", node.Hint("max-age", "1h")),
		pulls(nobody, "IfDigestChanged", "Failed", node.Hint("max-age", "1h")),
		pulls(bob, "Always", "Unchanged", node.Hint("max-age", "1h")),
		pulls(bob, "Always", "Fresh", node.Hint("max-age", "1h")),
	}},
	{"registry down", false, []step{
		pulls(alice, "Always", "Pulled"),
		down,
		pulls(bob, "IfNotPresent", "Failed"),
		pulls(bob, "IfDigestChanged", "Failed"),
		pulls(nobody, "IfDigestChanged", "Failed"),
		pulls(alice, "IfDigestChanged", "UsedCached"),
		up,
		fails(503),
		pulls(bob, "IfDigestChanged", "Failed"),
		pulls(alice, "IfDigestChanged", "UsedCached"),
		up,
		fails(404),
		pulls(wrong, "IfNotPresent", "Failed"),
		pulls(wrong, "IfDigestChanged", "Failed"),
		pulls(alice, "IfDigestChanged", "UsedCached"),
		up,
		pulls(bob, "Never", "Failed"),
	}},
	{"shut out at the registry", false, []step{
		func(s *scene) { s.push("2", nodetest.Image(s.seed+1000)) },
		pulls(alice, "Always", "Pulled"),
		pulls(bob, "Always", "Unchanged"),
		pullsObject(":2", alice, "Always", "Pulled"),
		denies(alice),
		pulls(alice, "Never", "Present"), // nobody has asked yet
		pulls(alice, "Always", "Failed"),
		pulls(alice, "Never", "Failed"),
		pulls(alice, "IfNotPresent", "Failed"),
		pullsDigest(alice, "Never", "Failed"),
		pullsObject(":2", alice, "Never", "Failed"),
		pulls(bob, "Never", "Present"),
		down,
		pulls(alice, "IfDigestChanged", "Failed"),
		pulls(bob, "IfDigestChanged", "UsedCached"),
		up,
		allows(alice),
		pulls(alice, "Never", "Failed"),
		pulls(alice, "IfNotPresent", "Unchanged"),
		pulls(alice, "Never", "Present"),
	}},
	{"shut out, whatever the directives", false, []step{
		pulls(alice, "Always", "Pulled"),
		fails(401),
		pulls(alice, "IfDigestChanged", "Failed"),
		up,
		pulls(alice, "Never", "Failed"),
		pulls(alice, "Always", "Unchanged"),
		fails(403),
		pulls(alice, "IfDigestChanged", "Failed"),
		up,
		pulls(alice, "Never", "Failed"),
	}},
	{"shut out by digest", false, []step{
		func(s *scene) { s.push("2", nodetest.Image(s.seed+1000)) },
		pulls(alice, "Always", "Pulled"),
		pullsObject(":2", bob, "Always", "Pulled"),
		denies(bob),
		pullsDigest(bob, "Never", "Failed"),
		pullsObject(":2", bob, "Never", "Present"),
		pullsDigest(bob, "Always", "Failed"),
		pullsObject(":2", bob, "Never", "Failed"),
	}},
	{"a public repository becomes private", true, []step{
		pulls(nobody, "Always", "Pulled"),
		pulls(alice, "Always", "Unchanged"),
		denies(nobody),
		pulls(nobody, "Never", "Present"),
		pulls(nobody, "Always", "Failed"),
		pulls(nobody, "Never", "Failed"),
		pulls(eve, "Never", "Failed"),
		pulls(alice, "Never", "Present"),
	}},
}
