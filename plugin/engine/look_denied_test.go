// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// slowRecords runs a hook in the last read of a look at the node: that of the image's ID.
type slowRecords struct {
	Records
	hook atomic.Pointer[func()]
	id   string
}

func (s *slowRecords) Get(ctx context.Context, name string) (store.Record, error) {
	if name == s.id {
		if f := s.hook.Swap(nil); f != nil {
			(*f)()
		}
	}
	return s.Records.Get(ctx, name)
}

// A proof that ends while a request looks at the node, before its check begins, is not renewed by that
// either.
func TestProofThatEndsInTheLook(t *testing.T) {
	for what, with := range map[string]string{"max_age": `max_age = "1s"`, "none": ""} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{remote: first, record: cachedImage(first, now)}
				e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" +
					rule(`policy = "IfDigestChanged"`, with))
				e.Now = time.Now
				time.Sleep(time.Hour)
				r := &slowRecords{Records: n, id: imageID(first).String()}
				e.Records = r
				answers := func(class failure.Class) {
					n.mu.Lock()
					defer n.mu.Unlock()
					n.checkFails, n.proved = class, nil
				}
				hook := func() {
					answers(failure.Forbidden)
					refused := n.request(nil)
					refused.Namespace, refused.PodNamespace = "b", "b"
					if o, _ := e.Ensure(t.Context(), refused); o.Kind != Failed || len(n.record.Proofs(alice)) > 0 {
						t.Errorf("%s, and her proof has not ended", o.Kind)
					}
					answers(failure.None)
				}
				r.hook.Store(&hook)
				o, err := e.Ensure(t.Context(), n.request(nil))
				if r.hook.Load() != nil || err != nil || o.Kind != Unchanged {
					t.Fatalf("%s (%s), %v", o.Kind, o.Reason, err)
				}
				if slices.Contains(n.proved, alice) && n.manifestsRead == 0 {
					t.Error("a check of the digest alone has renewed a proof that had ended")
				}
			})
		})
	}
}
