// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"testing"
	"time"
)

// The question after a pull is answered with the image once, within its time, and only
// after a pull that succeeded.
func TestAfterPull(t *testing.T) {
	for _, tc := range []struct {
		what      string
		succeeded bool
		later     time.Duration
		want      bool
	}{
		{"at once", true, 0, true},
		{"in time", true, afterPull, true},
		{"too late", true, afterPull + 1, false},
		{"the clock went back", true, -time.Second, false},
		{"failed", false, 0, false},
	} {
		var p pullers
		p.end("pod", "app", "image", tc.succeeded, noon)
		_, other := p.takeAfterPull("pod", "other", noon)
		if _, another := p.takeAfterPull("other", "app", noon); other || another {
			t.Errorf("%s: it is about another pod or image", tc.what)
		}
		if id, got := p.takeAfterPull("pod", "app", noon.Add(tc.later)); got != tc.want || got && id != "image" {
			t.Errorf("%s: %v, %q", tc.what, got, id)
		}
		if _, again := p.takeAfterPull("pod", "app", noon.Add(tc.later)); again {
			t.Errorf("%s: twice", tc.what)
		}
	}
	var p pullers
	p.tell("pod", "app", noon)
	p.end("pod", "app", "image", true, noon)
	p.begin("pod", "app", noon)
	if _, follows := p.takeAfterPull("pod", "app", noon); follows {
		t.Error("while the pod pulls again")
	}
}

// A pod that is told that there is no image pulls, or it does not: each step is a question
// (?), the begin of a pull (b), or its end (+ or -).
func TestPullers(t *testing.T) {
	for _, tc := range []struct {
		steps string
		want  string // of each question: p = pulls, n = does not
	}{
		{"????", "pnnn"},         // imagePullPolicy: Never
		{"?b+?b+?b+", "ppp"},     // IfNotPresent
		{"?b-????b+?", "pppppp"}, // waits after a failure
		{"?b???", "pppp"},        // the kubelet has left its pull
		{"?b+???b+?", "ppnpp"},   // another container of the pod does not pull
		{"??b+?b+?", "pnpp"},     // it was wrong to think that it does not
		{"b+?b+", "p"},           // Always
	} {
		var p pullers
		got := ""
		for _, step := range tc.steps {
			switch step {
			case '?':
				if p.tell("pod", "app", noon) {
					got += "p"
				} else {
					got += "n"
				}
			case 'b':
				p.begin("pod", "app", noon)
			default:
				p.end("pod", "app", "image", step == '+', noon)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.steps, got, tc.want)
		}
	}
}

// Pods are forgotten that have not asked for long, or are gone. No pod crowds out what
// is known of another.
func TestPullersAreBounded(t *testing.T) {
	var p pullers
	if told, noted := p.begin("pod", "app", noon); told || noted || !p.none() {
		t.Error("something is remembered of a pod that has not asked")
	}
	p.tell("pod", "app", noon)
	p.tell("pod", "app", noon)
	if p.tell("pod", "app", noon.Add(idleLimit)) || p.tell("pod", "app", noon.Add(2*idleLimit)) {
		t.Error("a pod that goes on to ask is forgotten")
	}
	if !p.tell("pod", "app", noon.Add(3*idleLimit+1)) {
		t.Error("a pod that has long been silent is remembered")
	}
	for i := range 10 * maxPodImages {
		p.tell("hostile", fmt.Sprint(i), noon)
	}
	if images, _ := p.pods.Get("hostile"); images.Len() != maxPodImages {
		t.Errorf("%d images of a pod are remembered", images.Len())
	}
	if p.tell("pod", "app", noon.Add(3*idleLimit+1)) {
		t.Error("a pod is forgotten by what another does")
	}
	if p.forget("pod"); !p.tell("pod", "app", noon) {
		t.Error("a pod that is gone is remembered")
	}
	for i := range 2 * maxPods {
		p.tell(fmt.Sprint(i), "app", noon)
	}
	if p.pods.Len() != maxPods {
		t.Errorf("%d pods are remembered", p.pods.Len())
	}
	if !p.warn("0", "app", noon) || p.warn("0", "app", noon) {
		t.Error("a pod is not warned of once")
	}
}
