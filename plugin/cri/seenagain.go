// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// podID is a pod, as the kubelet names it.
type podID struct{ namespace, name, uid string }

func podIDOf(m *runtime.PodSandboxMetadata) podID {
	return podID{m.GetNamespace(), m.GetName(), m.GetUid()}
}

// seenAgain remembers which pods a restarted kubelet means by its annotations, which are other ones than those of
// their sandboxes: a pull and the creation of a container say both the pod and the annotation. It is in memory, and
// bounded: who is forgotten is in doubt once more. The zero value is ready for use, by several goroutines.
type seenAgain struct {
	mu   sync.Mutex
	pods *simplelru.LRU[string, podID] // by configSeen; nil until something is remembered
}

// note remembers the pod of a request.
func (a *seenAgain) note(pod *runtime.PodSandboxConfig) {
	seen := pod.GetAnnotations()[configSeen]
	if seen == "" || pod.GetMetadata().GetUid() == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil {
		a.pods = newLRU[podID](maxPods)
	}
	a.pods.Add(seen, podIDOf(pod.GetMetadata()))
}

// of returns the pod that is meant by an annotation.
func (a *seenAgain) of(seen string) (pod podID, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil {
		return podID{}, false
	}
	return a.pods.Get(seen)
}

// forget forgets a pod.
func (a *seenAgain) forget(pod podID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil {
		return
	}
	for _, seen := range a.pods.Keys() {
		if p, ok := a.pods.Peek(seen); ok && p == pod {
			a.pods.Remove(seen)
		}
	}
}

// none reports whether nothing is remembered.
func (a *seenAgain) none() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods == nil || a.pods.Len() == 0
}
