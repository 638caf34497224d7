// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// askers are requests without credentials of their own: hosts are shown the node's for the first, and none for the second.
func (n *node) askers() (byNode, without Request) {
	byNode, without = n.request(nil), n.request(nil)
	byNode.Caller, byNode.NodeCredentials = store.Anonymous, "the node's"
	without.Caller = store.Anonymous
	return byNode, without
}

// Who is let in by the node's credentials, and who has none at all, share no check, and so no answer to one.
func TestNodesCredentialsShareNoCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second}
		gate := make(chan struct{})
		n.onCheck = func() { <-gate }
		e := n.engine("# none")
		byNode, without := n.askers()
		var all []<-chan arrival
		for range 2 {
			all = append(all, arrive(t, e, byNode), arrive(t, e, without))
		}
		synctest.Wait()
		if n.checks != 2 {
			t.Errorf("%d checks, want one for each of the two", n.checks)
		}
		close(gate)
		for _, a := range all {
			if a := <-a; a.outcome.Kind == Failed {
				t.Error(a.outcome.Err)
			}
		}
	})
}

// Nor do they share a pull, a failed try of one, or what one has left unfinished.
func TestNodesCredentialsShareNoPull(t *testing.T) {
	n := &node{remote: second}
	byNode, without := n.askers()
	ofNode, ofNobody := &task{Request: byNode}, &task{Request: without}
	if ofNode.pullKey(second.Digest) == ofNobody.pullKey(second.Digest) {
		t.Error("they share a pull")
	}
	e := new(Engine)
	one, waiting, same := e.newTry(*ofNode, second.Digest), e.newTry(*ofNobody, second.Digest), e.newTry(*ofNode, second.Digest)
	for _, y := range []*try{one, waiting, same} {
		defer y.leave()
	}
	one.begin(needs{true, true})
	one.fail(failureOf(name, failure.Unauthorized))
	if waiting.shared(needs{true, true}) != nil || same.shared(needs{true, true}) == nil {
		t.Error("a failed try is shared with who has no credentials, or not with who asks by the same")
	}
	if ofNode.scope(nil) == ofNobody.scope(nil) || ofNode.scope(nil).OfRegistry() == ofNobody.scope(nil).OfRegistry() {
		t.Error("they share unfinished downloads")
	}
	other := *ofNode
	other.NodeCredentials = "those of another configuration"
	if ofNode.scope(nil) == other.scope(nil) {
		t.Error("what was begun by the credentials of before is gone on with by others")
	}
	if ofNode.holder() != ofNobody.holder() {
		t.Error("they are two holders of proofs")
	}
}
