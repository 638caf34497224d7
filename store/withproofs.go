// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// errUnlisted is the error of records that cannot be read: nobody knows then which revocations have anything to end.
var errUnlisted = errors.New("list the images whose proofs are taken back")

// changing returns the records that a batch may change, with the labels of those from which it may take
// proofs away, and by what: which these are is looked up in each transaction anew.
func (s *Store) changing(tx *bolt.Tx, b index) (map[key]map[string]string, onDisk, error) {
	records, disk := map[key]map[string]string{}, newOnDisk()
	for k := range b.marked {
		records[k] = nil
	}
	for namespace, holders := range b.holdersRevoked() {
		found, err := s.withProofs(tx, namespace, holders, b)
		if err != nil {
			return nil, disk, fmt.Errorf("%w: %w", errUnlisted, err)
		}
		for k, all := range found {
			_, changes := records[k]
			for _, l := range b.of(k, all) {
				changes = disk.note(l.revocations, k, all) || changes
			}
			if changes {
				records[k] = all
			}
		}
	}
	return records, disk, nil
}

// holdersRevoked are the holders whose proofs the batch may end in each namespace, and the nobody to whom the revocations of everybody's belong.
func (x index) holdersRevoked() map[string]map[Fingerprint]bool {
	holders := map[string]map[Fingerprint]bool{}
	for p, revoked := range x.revoked {
		if holders[p.namespace] == nil {
			holders[p.namespace] = map[Fingerprint]bool{}
		}
		for f := range revoked {
			holders[p.namespace][f] = true
		}
	}
	return holders
}

// withProofs reads those records of a namespace that have proofs of which the batch may end any, with their labels. All others stay as the
// database has them, readable or not: a node may have thousands, each refusal is looked up, and whoever pulls or is refused
// meanwhile waits.
func (s *Store) withProofs(tx *bolt.Tx, namespace string, holders map[Fingerprint]bool, b index) (map[key]map[string]string, error) {
	found, records := map[key]map[string]string{}, rawRecords(tx, namespace)
	if records == nil {
		return found, nil
	}
	ctx := inTransaction(tx, namespace)
	err := records.ForEach(func(raw, _ []byte) error {
		record := records.Bucket(raw)
		if record == nil {
			return fmt.Errorf("image record %q is not a bucket", raw)
		}
		labels := record.Bucket([]byte("labels"))
		if labels == nil || !b.mayRevoke(namespace, string(raw), holders, labels) {
			return nil
		}
		img, err := s.images.Get(ctx, string(raw))
		if err != nil {
			return fmt.Errorf("read image record %q: %w", raw, err)
		}
		found[keyOf(namespace, img)] = img.Labels
		return nil
	})
	return found, err
}

// mayRevoke reports whether the batch may end proofs that the labels of the record of that name have, as the database has them. It is true wherever
// [index.revoking] finds anything of what they decode to, be a proof readable or not.
func (x index) mayRevoke(namespace, name string, holders map[Fingerprint]bool, labels *bolt.Bucket) bool {
	var in []placed
	prefix, c := []byte(LabelAccess), labels.Cursor()
	for label, value := c.Seek(prefix); bytes.HasPrefix(label, prefix); label, value = c.Next() {
		f, _, _ := holderOf(string(label))
		if len(value) == 0 || !holders[f] && !holders[""] {
			continue
		}
		if in == nil {
			in = placesAbout(key{namespace: namespace, name: name}, map[string]string{LabelRecord: string(labels.Get([]byte(LabelRecord)))})
		}
		for _, p := range in {
			if revoked := x.revoked[p.place]; revoked[f] != nil || revoked[""] != nil {
				return true
			}
		}
	}
	return false
}
