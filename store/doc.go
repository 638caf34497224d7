// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps what pullwarden knows of an image in labels on
// containerd's own image records, so that it goes with the image, outlives
// restarts, and is shown by `ctr images ls`.
//
// A pull stores its findings in the same transaction as the new target (package
// plugin/transfer). Those of a check are marks: one goroutine writes them
// later, each only while its record is the one that was there when the mark was
// made, and still points at the digest that was checked: a record that was removed
// and made again under its name gets none of them. At no moment does a label claim
// a digest that its record does not have. A revocation is of no record: it waits as it is, and is
// written to all that have the proofs by then; where no record on disk has any, it is done once no mark
// gives one. Get and First show both before that. A crash may lose marks of the last moments, but never
// a revocation that has returned.
//
// Other clients of containerd change records without us: they move the target of
// one and keep its labels, or copy the labels to another name. So every write binds
// all labels of a record to its name and target ([LabelRecord]), and [Decode] takes
// those that are bound to another for absent. [Supersede] clears them away with the
// next write.
//
// # Who calls what
//
// Every call takes the containerd namespace from its context. Marks take the
// digest that they speak of and the names of records: the reference that was
// asked for and its repository@digest.
//
//   - Before a decision: [Store.Get], once for each decision, and again when a
//     request has waited for another pull of the same name.
//   - After a check that confirmed the image on the node: [Store.MarkVerified]. A mirror's
//     leaves the registry's, and its proofs, beside it: see [Verified.Origin].
//   - After a fallback, which reuses the image although its check failed:
//     [Store.MarkStale]. The next MarkVerified or MarkPulled takes the mark away.
//   - After a mirror confirmed the image in the place of its registry:
//     [Store.MarkMirrored], with MarkStale where the tag was in question. The next
//     MarkVerified or MarkPulled takes the mark away, and leaves the proofs.
//   - Around a pull: package plugin/transfer writes [State.Labels] in the pull's
//     own transaction, as a change that went through [Supersede], within
//     [Store.WriteProofs]: a revocation comes before it or after. [Store.Given]
//     says before that how the proofs were given. When the pull has ended,
//     [Store.MarkPulled] brings the same state to records that the transaction
//     did not write, but for where the content came from: that is the
//     transaction's to say.
//   - When an image that is here was compared with what hosts have:
//     [Store.WriteSources]. It waits for the disk: the next pull has to find it.
//   - When a proof of access alone let an image be reused, without a check:
//     [Store.Used]. MarkVerified and MarkPulled note the use of the proofs that
//     they give.
//   - When a registry refused a caller, before the request ends: [Store.Revoke].
//     It waits for the disk. Where it fails, the request must fail, and it is tried again.
//   - When an image of a tag may have no record of repository@digest, or one without its proofs:
//     [Store.ShareProofs], before marks are made for both. It waits for the disk, too.
//   - Around a write of containerd's own that replaces all labels: [Store.KeepProofs].
//   - To pin images and to release them: [Store.Pins] and [Store.SetPins], which waits
//     for the disk. No other call touches a pin but the pull of its tag: CRI has to be
//     told of each.
//   - To show images: [Store.First].
//   - Once, at the end: [Store.Close].
package store
