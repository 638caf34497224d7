// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout puts pullwarden onto the nodes of a cluster in stages, and takes it off
// again.
//
//	Ledger.Load ─► State ┐
//	Watcher.Look ─► World ┴─► next (pure) ─► State ─► Ledger.Save ─► Runner.Start, Stop
//
// Each node has a Record, which a step saves before it acts upon it. Ledger.Save refuses a
// State that somebody else has changed since it was loaded. So a controller that is killed goes on
// where it was, and two of them at once do no more than one.
package rollout

import (
	"slices"
	"time"
)

// Phase says how far a node is.
type Phase string

// The phases, in the order in which a node walks through them.
const (
	Installing Phase = "Installing" // its pod runs pullwarden install
	Settling   Phase = "Settling"   // it has to be Ready, and to stay so
	Installed  Phase = "Installed"
	Reverted   Phase = "Reverted"  // it was installed, and runs another runtime now: somebody may want it so
	Undoing    Phase = "Undoing"   // its pod runs pullwarden uninstall
	Undone     Phase = "Undone"    // it has its own containerd
	Restoring  Phase = "Restoring" // the install failed, and has put back what was there: the node has to be Ready
	Failed     Phase = "Failed"    // it is as it was before, or has its own containerd
	Stuck      Phase = "Stuck"     // it could not be undone: somebody has to look, and says so by another target
)

// underWay reports whether the node may be without a container runtime for a moment.
func (p Phase) underWay() bool {
	return p == Installing || p == Settling || p == Undoing || p == Restoring
}

// Record is what is known of a node.
type Record struct {
	UID    string    `json:"uid"` // of the Node object: another machine of the same name is another node
	Phase  Phase     `json:"phase"`
	Target string    `json:"target"` // what is, or was to be, installed
	Since  time.Time `json:"since"`  // when the phase began
	// Pod is the name of the pod of this attempt; "" where there is none.
	Pod string `json:"pod,omitempty"`
	// Reason says why a node failed, or is undone; "" where nothing has failed.
	Reason string `json:"reason,omitempty"`
}

// State is what outlasts a controller.
type State struct {
	// UndoOf is the target that is to be taken off all nodes; "" = none. Another target
	// begins a new rollout.
	UndoOf string            `json:"undoOf,omitempty"`
	Nodes  map[string]Record `json:"nodes"`
}

// hasFurther reports whether it has nodes that an earlier one has not.
func (s *State) hasFurther(was State) bool {
	for name := range s.Nodes {
		if _, known := was.Nodes[name]; !known {
			return true
		}
	}
	return false
}

// Node is a node of the cluster.
type Node struct {
	Name, UID    string
	Excluded     bool // it gets nothing; it keeps what it has, until that is undone
	ControlPlane bool
	Ready        bool
	Changed      time.Time // when Ready last changed, by the node's own clock
	Runtime      string    // what the kubelet says that it talks to: containerd://2.4.2+pullwarden.v1.0.0
}

// Verb is what a pod does to its node.
type Verb string

// The verbs of pullwarden that pods run.
const (
	Install   Verb = "install"
	Uninstall Verb = "uninstall"
)

// Pod is a pod that does something to a node.
type Pod struct {
	Name, Node string
	Ended      bool
	Succeeded  bool
	// Exited is the exit code of a container that ended by itself; 0 where it was killed or
	// never ran.
	Exited  int
	Message string // its last words, or why it waits
	Leaving bool   // it is being deleted
}

// World is what a look at the cluster has shown.
type World struct {
	Nodes []Node
	Pods  []Pod
}

// included returns the nodes that pullwarden is to be put onto.
func (w *World) included() []Node {
	return slices.DeleteFunc(slices.Clone(w.Nodes), func(n Node) bool { return n.Excluded })
}
