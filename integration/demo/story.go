// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "context"

// step is a change of the world, a pod that starts after it, and what the node
// is to decide.
type step struct {
	title string
	// world says in a sentence what happens.
	world string
	// change makes it happen; nil for nothing.
	change func(context.Context, *world) error
	pod    pod
	want   decision
	// so says in a sentence what to see in it.
	so string
}

// pod is what a kubelet tells of a pod.
type pod struct {
	name   string // namespace/name
	image  string
	hints  [][2]string // annotations: key without prefix, value
	secret *credentials
	// ifNotPresent is its imagePullPolicy; else that is Always.
	ifNotPresent bool
}

// decision is what the story promises of the node's.
type decision struct {
	outcome, reason string
	kubelet         string // the reason that a kubelet shows for a failure
	stale           string // the mark on the image afterwards; "" for none
}

var story = []step{
	{
		title: "First pull",
		world: "A pod starts on the node, which has no image yet.",
		pod:   pod{name: "shop/web-1", image: webImage},
		want:  decision{outcome: "Pulled", reason: "absent"},
		so:    "The registry said what the tag is; the layers came from the mirror.",
	},
	{
		title: "Nothing changed",
		world: "The next pod of the same image starts.",
		pod:   pod{name: "shop/web-2", image: webImage},
		want:  decision{outcome: "Unchanged", reason: "same_digest"},
		so:    "One HEAD, on the same connection and with the same token. Nothing is downloaded.",
	},
	{
		title:  "Changed",
		world:  "Somebody pushes a new build under the same tag.",
		change: func(ctx context.Context, w *world) error { return w.release(ctx, 1) },
		pod:    pod{name: "shop/web-3", image: webImage},
		want:   decision{outcome: "Pulled", reason: "changed"},
		so:     "What is pulled is exactly the digest that the check compared.",
	},
	{
		title: "Rolled back",
		world: "The new build was bad: the tag is moved back to the one before.",
		change: func(ctx context.Context, w *world) error {
			return w.registry.Tag(ctx, webRepo, tag, w.builds[0])
		},
		pod:  pod{name: "shop/web-4", image: webImage},
		want: decision{outcome: "Pulled", reason: "changed"},
		so:   "A rollback is a change too. The layers are still here, and the mirror, which has not noticed, is not asked.",
	},
	{
		title: "Changed, for a pod that says IfNotPresent",
		world: "The new build is mended and pushed. The next pod says imagePullPolicy: IfNotPresent, as most manifests " +
			"do, so its kubelet first asks whether the image is there.",
		change: func(ctx context.Context, w *world) error { return w.release(ctx, 1) },
		pod:    pod{name: "shop/web-5", image: webImage, ifNotPresent: true},
		want:   decision{outcome: "Pulled", reason: "changed"},
		so:     "By govern = \"Starts\" the policy holds at every start. No manifest was touched.",
	},
	{
		title:  "Changed, and no time to wait",
		world:  "One more build is pushed, the way to it is slow today, and a pod of a team starts whose jobs must not wait.",
		change: func(ctx context.Context, w *world) error { return w.releaseSlowly(ctx, 2) },
		pod:    pod{name: "batch/job-1", image: webImage},
		want:   decision{outcome: "UsedCached", reason: "pull_deadline", stale: "pull_deadline"},
		so:     "It starts from the build of before, at once, and says so. The pull goes on in the background.",
	},
	{
		title:  "The next pod has it",
		world:  "The download is done, and the next pod of that team starts.",
		change: func(ctx context.Context, w *world) error { return w.awaitRelease(ctx, 2) },
		pod:    pod{name: "batch/job-2", image: webImage},
		want:   decision{outcome: "Unchanged", reason: "same_digest"},
		so:     "Nobody has waited for the new build, and here it is.",
	},
	{
		title: "A private image",
		world: "A pod of another team starts, with the pull secret that its image takes.",
		pod:   pod{name: "bank/ledger-1", image: ledgerImage, secret: &secret},
		want:  decision{outcome: "Pulled", reason: "absent"},
		so:    "The mirror does not have this one. That the secret opened it is noted: a fingerprint, not the secret.",
	},
	{
		title:  "Registry down",
		world:  "The registry refuses connections, and a pod starts.",
		change: func(_ context.Context, w *world) error { w.registry.Refuse(); return nil },
		pod:    pod{name: "shop/web-6", image: webImage},
		want:   decision{outcome: "UsedCached", reason: "unreachable", stale: "unreachable"},
		so:     "The pod runs, and not in silence: a warning in the log, marks on the image, a metric.",
	},
	{
		title: "Registry down: the private image, for its owner",
		world: "The next pod with the pull secret starts.",
		pod:   pod{name: "bank/ledger-2", image: ledgerImage, secret: &secret},
		want:  decision{outcome: "UsedCached", reason: "unreachable", stale: "unreachable"},
		so:    "This secret has opened the image before: that counts while nobody can be asked.",
	},
	{
		title: "Registry down: the private image, for somebody else",
		world: "A pod without the secret asks for the private image.",
		pod:   pod{name: "shop/curious", image: ledgerImage},
		want:  decision{outcome: "Failed", reason: "unreachable", kubelet: "RegistryUnavailable", stale: "unreachable"},
		so:    "Pulling the cable is no way in, although the image is on the node.",
	},
	{
		title: "Registry down: a strict pod",
		world: "A pod asks for the policy Always: it would rather not run than run something old.",
		pod:   pod{name: "shop/strict", image: webImage, hints: [][2]string{{"policy", "Always"}}},
		want:  decision{outcome: "Failed", reason: "unreachable", kubelet: "RegistryUnavailable", stale: "unreachable"},
		so:    "The kubelet has a reason of its own for this, shows it, and tries again.",
	},
	{
		title: "Tag gone",
		world: "The registry is back, but somebody has deleted the tag.",
		change: func(ctx context.Context, w *world) error {
			if err := w.registry.DeleteTag(ctx, webRepo, tag); err != nil {
				return err
			}
			return w.restore()
		},
		pod:  pod{name: "shop/web-7", image: webImage},
		want: decision{outcome: "UsedCached", reason: "not_found", stale: "not_found"},
		so:   "A tag that somebody cleaned away does not take a service down.",
	},
	{
		title: "Tag gone: a pod that minds",
		world: "A pod says that for it, a missing tag is a failure.",
		pod:   pod{name: "shop/minds", image: webImage, hints: [][2]string{{"on-not-found", "Fail"}}},
		want:  decision{outcome: "Failed", reason: "not_found", kubelet: "ErrImagePull", stale: "not_found"},
		so:    "Each class of failure has a directive of its own, in rules and in hints.",
	},
	{
		title:  "Back again",
		world:  "The tag is pushed again.",
		change: func(ctx context.Context, w *world) error { return w.release(ctx, 2) },
		pod:    pod{name: "shop/web-8", image: webImage},
		want:   decision{outcome: "Unchanged", reason: "same_digest"},
		so:     "The first check that succeeds takes the marks away.",
	},
}
