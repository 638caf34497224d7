// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	bolt "go.etcd.io/bbolt"
)

// First returns for each list of names, in the namespace of the context, the
// record of the first name that is [State.Known], with marks that are not yet
// written; nil where there is none. It reads no further than that, and nothing
// again that was read since the last change; the rest it reads in one
// transaction. The records are shared: they must not be changed.
func (s *Store) First(ctx context.Context, lists [][]string) ([]*Record, error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return nil, err
	}
	l := s.listings.of(namespace)
	found := make([]*Record, len(lists))
	var missing []int
	for i, names := range lists {
		if found[i], err = l.first(ctx, names, notRead{}); err != nil {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	err = s.view(ctx, namespace, func(ctx context.Context, r reader) error {
		for _, i := range missing {
			if found[i], err = l.first(ctx, lists[i], r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Known reports whether a pull or a check has left anything but proofs.
func (s State) Known() bool {
	return s.PullSource != "" || len(s.ContentSources) > 0 || s.MoreSources > 0 || !s.PulledAt.IsZero() || s.Verified.Digest != "" || !s.Stale.Since.IsZero()
}

// view calls fn once, with a reader for one transaction and the context to read
// in.
func (s *Store) view(ctx context.Context, namespace string, fn func(context.Context, reader) error) error {
	for again := true; again; {
		before := s.transactions()
		err := s.db.View(func(tx *bolt.Tx) error {
			s.mu.Lock()
			r := transactionReader{
				images: s.images, namespace: namespace,
				raw: rawRecords(tx, namespace), decoded: s.decoded,
			}
			unwritten := slices.Concat(s.flushing, s.waiting()).clone()
			after := s.flushed
			s.mu.Unlock()
			r.unwritten = unwritten.index()
			r.marked = r.unwritten.markedNames(namespace)
			if again = before != after; again {
				return nil // a mark may have been written that this transaction does not see
			}
			return fn(boltutil.WithTransaction(ctx, tx), r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reader reads records; nil is one that is not there or of which nothing is
// known.
type reader interface {
	read(ctx context.Context, name string) (*Record, error)
}

// transactionReader reads in the transaction of the context, and lays over the
// records what was not yet written when it began.
type transactionReader struct {
	images    images.Store
	namespace string
	unwritten index
	marked    map[string]bool // names of records that have a mark
	raw       *bolt.Bucket    // nil where there are no records
	decoded   *decoded
}

func (r transactionReader) read(ctx context.Context, name string) (*Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sum, found := r.decoded.sum(r.raw, name)
	keep := found && !r.marked[name] && !r.mayRevoke(name)
	if record, ok := r.decoded.get(recordName{r.namespace, name}, sum); ok && keep {
		return record, nil
	}
	img, err := r.images.Get(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read image record %q: %w", name, err)
	}
	k := keyOf(r.namespace, img)
	var record *Record
	if known := recordOf(img, r.unwritten.over(k, img.Labels)); known.Known() {
		record = &known
	}
	if keep {
		r.decoded.add(recordName{r.namespace, name}, sum, record)
	}
	return record, nil
}

// mayRevoke reports whether the record of that name may show less than it has. Labels that were written for another
// name show no proof, revoked or not.
func (r transactionReader) mayRevoke(name string) bool {
	revoked := r.unwritten.revoked
	return len(revoked) > 0 && slices.ContainsFunc(placesOf(r.namespace, name), func(p place) bool { return revoked[p] != nil })
}

// notRead reads nothing, so that a listing gives what it remembers alone.
type notRead struct{}

var errNotRead = errors.New("not read since the last change")

func (notRead) read(context.Context, string) (*Record, error) { return nil, errNotRead }
