// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"hash/maphash"

	lru "github.com/hashicorp/golang-lru/v2"
	bolt "go.etcd.io/bbolt"
)

// maxDecoded bounds how many records are remembered as they were decoded, of about a
// kilobyte each. Those that were not shown for longest are forgotten first, which costs
// no more than reading them again.
const maxDecoded = 8192

// decoded remembers what was made of records, by all that the database holds of them: a
// record is decoded again only when it has changed, while others may change all the time.
// It is safe for concurrent use.
type decoded struct {
	seed     maphash.Seed
	byRecord *lru.Cache[recordName, decodedRecord]
}

type decodedRecord struct {
	sum    uint64
	record *Record // nil: nothing is known
}

func newDecoded() *decoded {
	byRecord, err := lru.New[recordName, decodedRecord](maxDecoded)
	if err != nil {
		panic(err) // only a size that is not positive is an error
	}
	return &decoded{seed: maphash.MakeSeed(), byRecord: byRecord}
}

// get returns what was made of a record with that sum; false where it has another now.
func (d *decoded) get(name recordName, sum uint64) (*Record, bool) {
	last, ok := d.byRecord.Get(name)
	if !ok || last.sum != sum {
		return nil, false
	}
	return last.record, true
}

func (d *decoded) add(name recordName, sum uint64, record *Record) {
	d.byRecord.Add(name, decodedRecord{sum, record})
}

// rawRecords returns where containerd's metadata database keeps the image records of a
// namespace (the schema of package core/metadata: v1/<namespace>/images/<name>); nil
// where it keeps none.
func rawRecords(tx *bolt.Tx, namespace string) *bolt.Bucket {
	b := tx.Bucket([]byte("v1"))
	for _, name := range []string{namespace, "images"} {
		if b != nil {
			b = b.Bucket([]byte(name))
		}
	}
	return b
}

// sum returns a hash of all that the database holds of a record: its labels, its target
// and its times, whatever else there may be. Its seed is this process's own, so nobody
// can write a record that has the sum of another. It is false for a record that is not
// there.
func (d *decoded) sum(records *bolt.Bucket, name string) (sum uint64, found bool) {
	if records == nil {
		return 0, false
	}
	record := records.Bucket([]byte(name))
	if record == nil {
		return 0, false
	}
	var h maphash.Hash
	h.SetSeed(d.seed)
	hashBucket(&h, record)
	return h.Sum64(), true
}

// hashBucket writes keys and values with their lengths, and nested buckets in the place
// of their values.
func hashBucket(h *maphash.Hash, b *bolt.Bucket) {
	var length [8]byte
	write := func(data []byte) {
		binary.LittleEndian.PutUint64(length[:], uint64(len(data)))
		_, _ = h.Write(length[:]) // it never fails
		_, _ = h.Write(data)
	}
	c := b.Cursor()
	for key, value := c.First(); key != nil; key, value = c.Next() {
		write(key)
		if value != nil {
			write(value)
			continue
		}
		hashBucket(h, b.Bucket(key))
		write(nil)
	}
}
