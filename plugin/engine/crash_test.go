// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	bolt "go.etcd.io/bbolt"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// mortalDB is a metadata database that the store cannot change any more once it has
// crashed.
type mortalDB struct {
	*metadata.DB
	crashed atomic.Bool
}

func (db *mortalDB) Update(fn func(*bolt.Tx) error) error {
	if db.crashed.Load() {
		return errTest
	}
	return db.DB.Update(fn)
}

// storedRuntime stores records in a real database, as plugin/transfer does.
type storedRuntime struct {
	*node
	records images.Store
	decided func() // which proofs hold, and nothing is stored yet
}

func (r *storedRuntime) Pull(ctx context.Context, plan *pwtransfer.Plan) (string, error) {
	_, target, err := plan.Source.Resolve(ctx)
	if err != nil {
		return "", err
	}
	write := func() error {
		state := plan.State(target.Digest, store.State{})
		r.decided()
		_, err := r.records.Create(ctx, images.Image{Name: plan.Reference, Target: target, Labels: state.Labels(plan.Reference, target.Digest)})
		return err
	}
	if plan.Write == nil {
		return imageID(target).String(), write()
	}
	return imageID(target).String(), plan.Write(ctx, write)
}

// A caller is denied while a pull of theirs is being stored, and the daemon crashes as soon
// as they have heard of it: the pull leaves no proof behind.
func TestCrashAfterADenialDuringAPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &mortalDB{DB: openDB(t)}
		ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
		n := &node{remote: first}
		e := n.engine(rule(`policy = "Always"`))
		records := metadata.NewImageStore(db.DB)
		s := store.New(db, records)
		e.Records, e.Marks, e.Proofs = s, s, s
		denied := make(chan Outcome, 1)
		runtime := &storedRuntime{node: n, records: records}
		req := n.request(nil)
		req.Runtime = runtime
		runtime.decided = func() {
			n.mu.Lock()
			n.checkFails = failure.Forbidden
			n.mu.Unlock()
			go func() {
				o, _ := e.Ensure(ctx, req)
				db.crashed.Store(true)
				denied <- o
			}()
			synctest.Wait()
		}
		_, _ = e.Ensure(ctx, req)
		if o := <-denied; o.Kind != Failed || o.Reason != Reason(failure.Forbidden) {
			t.Errorf("the other request: %s (%s), %v", o.Kind, o.Reason, o.Err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s = store.New(db, records)
		defer s.Close()
		r, err := s.Get(ctx, name)
		if err != nil || !r.Restricted || len(r.Access) != 0 {
			t.Errorf("after the crash: restricted %v, proved %v, %v", r.Restricted, r.Access, err)
		}
	})
}
