// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxPods bounds the pods of which something is remembered, and maxPodImages the
	// images of one pod: a pod can only crowd out what is known of itself.
	maxPods, maxPodImages = 2048, 64
	// afterPull bounds the time between a pull and the kubelet's question for the size,
	// which comes at once.
	afterPull = 10 * time.Second
	// idleLimit is how long a pod is remembered that does not ask. A kubelet waits no
	// longer than 5 minutes between its attempts.
	idleLimit = time.Hour
)

// pullers remembers which pods pull the images that they are told are not there. A pod
// with imagePullPolicy: Never does not; neither does one for which the kubelet waits
// after a pull that failed. All is in memory, bounded, and goes with the pod. The zero
// value is ready for use, by several goroutines.
type pullers struct {
	mu   sync.Mutex
	pods *simplelru.LRU[string, *simplelru.LRU[string, *puller]] // nil until something is remembered
}

// puller is a pod, for one image.
type puller struct {
	asked  time.Time // or pulled, the last time
	told   bool      // that there is no image, and has not pulled since
	pulled bool      // has ever pulled, with success or not
	failed bool      // the last pull, or it has not ended
	ended  time.Time // the last successful pull, until its question has been answered
	image  string    // the ID of the image of that pull
	skips  bool      // does not pull
	warned bool      // of a pod that does not pull
}

// get returns a pod's puller; nil where there is none, or where it is too long ago. It
// needs the lock.
func (p *pullers) get(pod, image string, now time.Time) *puller {
	if p.pods == nil {
		return nil
	}
	images, ok := p.pods.Get(pod)
	if !ok {
		return nil
	}
	q, ok := images.Get(image)
	if !ok || now.Sub(q.asked) > idleLimit {
		return nil
	}
	q.asked = now
	return q
}

// make returns a pod's puller, a new one where there is none. It needs the lock.
func (p *pullers) make(pod, image string, now time.Time) *puller {
	if q := p.get(pod, image, now); q != nil {
		return q
	}
	if p.pods == nil {
		p.pods = newLRU[*simplelru.LRU[string, *puller]](maxPods)
	}
	images, ok := p.pods.Get(pod)
	if !ok {
		images = newLRU[*puller](maxPodImages)
		p.pods.Add(pod, images)
	}
	q := &puller{asked: now}
	images.Add(image, q)
	return q
}

func newLRU[V any](size int) *simplelru.LRU[string, V] {
	l, err := simplelru.NewLRU[string, V](size, nil)
	if err != nil {
		panic(err) // only a size that is not positive is an error
	}
	return l
}

// takeAfterPull returns the ID of the image that was pulled, where a question is the one
// that follows a pull. The next one is not.
func (p *pullers) takeAfterPull(pod, image string, now time.Time) (imageID string, follows bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.get(pod, image, now)
	if q == nil || q.ended.IsZero() {
		return "", false
	}
	age := now.Sub(q.ended)
	q.ended = time.Time{}
	return q.image, age >= 0 && age <= afterPull
}

// tell notes that a pod is told that there is no image, and reports whether it pulls
// then, as far as is known. It does not where it was told so before and has not pulled
// since, unless its last pull failed: then the kubelet waits. Where the pod has pulled
// before, another of its containers does not, and the next question may be of either.
func (p *pullers) tell(pod, image string, now time.Time) (pulls bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.make(pod, image, now)
	switch {
	case q.skips:
		return false
	case q.told && !q.failed:
		q.told, q.skips = false, !q.pulled
		return false
	}
	q.told = true
	return true
}

// begin notes that a pod pulls, and reports whether it was told to. Of pods that have not
// asked nothing is noted. A pull that was noted has to end, by whatever rule it was made.
func (p *pullers) begin(pod, image string, now time.Time) (told, noted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.get(pod, image, now)
	if q == nil {
		return false, false
	}
	told = q.told
	q.told, q.skips, q.pulled, q.failed, q.ended = false, false, true, true, time.Time{}
	return told, true
}

// end notes how a pull has ended, and with which image.
func (p *pullers) end(pod, image, imageID string, succeeded bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.make(pod, image, now)
	q.pulled, q.failed = true, !succeeded
	if succeeded {
		q.ended, q.image = now, imageID
	}
}

// warn reports whether a pod is to be warned of: once.
func (p *pullers) warn(pod, image string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.make(pod, image, now)
	first := !q.warned
	q.warned = true
	return first
}

// none reports whether nothing is remembered.
func (p *pullers) none() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods == nil || p.pods.Len() == 0
}

// forget forgets a pod.
func (p *pullers) forget(pod string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pods != nil {
		p.pods.Remove(pod)
	}
}
