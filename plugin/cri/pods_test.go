// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sandboxes is containerd's own runtime service, which has these sandboxes.
type sandboxes struct {
	runtime.UnimplementedRuntimeServiceServer
	all []*runtime.PodSandbox
	err error
}

func (s *sandboxes) ListPodSandbox(_ context.Context, r *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	if s.err != nil {
		return nil, s.err
	}
	id := r.GetFilter().GetId()
	return &runtime.ListPodSandboxResponse{Items: slices.DeleteFunc(slices.Clone(s.all), func(p *runtime.PodSandbox) bool { return id != "" && p.GetId() != id })}, nil
}

func (s *sandboxes) RemovePodSandbox(_ context.Context, r *runtime.RemovePodSandboxRequest) (*runtime.RemovePodSandboxResponse, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.all = slices.DeleteFunc(s.all, func(p *runtime.PodSandbox) bool { return p.GetId() == r.GetPodSandboxId() })
	return &runtime.RemovePodSandboxResponse{}, nil
}

// add adds a sandbox, and returns its ID.
func (s *sandboxes) add(namespace, seen string, ready bool) string {
	p := &runtime.PodSandbox{
		Id: fmt.Sprint(len(s.all)), Metadata: podIn(namespace),
		Annotations: map[string]string{configSeen: seen}, State: runtime.PodSandboxState_SANDBOX_NOTREADY,
	}
	if ready {
		p.State = runtime.PodSandboxState_SANDBOX_READY
	}
	s.all = append(s.all, p)
	return p.GetId()
}

func podIn(namespace string) *runtime.PodSandboxMetadata {
	return &runtime.PodSandboxMetadata{Namespace: namespace, Name: "pod", Uid: namespace}
}

// namespacesOf returns the namespaces of pods in their order, each once.
func namespacesOf(pods []*runtime.PodSandbox) (all []string) {
	for _, p := range pods {
		all = append(all, p.GetMetadata().GetNamespace())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A question is about the pod that the kubelet has seen then; else it may be about each
// that is ready.
func TestPodsOf(t *testing.T) {
	inner := &sandboxes{}
	s := &Starts{Sandboxes: inner}
	want := func(seen string, sure bool, want ...string) {
		t.Helper()
		pods, isSure, err := s.podsOf(t.Context(), seen)
		if got := namespacesOf(pods); err != nil || !slices.Equal(got, want) || isSure != sure {
			t.Errorf("a pod that was seen at %s may be of %q, %v; want %q; sure: %v", seen, got, err, want, isSure)
		}
	}
	want("noon", false)
	inner.add("ended", "morning", false)
	want("noon", false)
	want("morning", true, "ended")
	inner.add("b", "noon", true)
	inner.add("a", "one", true)
	inner.add("a", "two", true)
	want("noon", true, "b")
	want("three", false, "a", "b")
	inner.add("c", "noon", false)
	want("noon", true, "b", "c")
	config := func(namespace, seen string) *runtime.PodSandboxConfig {
		return &runtime.PodSandboxConfig{Metadata: podIn(namespace), Annotations: map[string]string{configSeen: seen}}
	}
	s.again.note(config("c", "after a restart"))
	want("after a restart", true, "c")
	want("after another one", false, "a", "b")
	s.again.note(config("gone", "after another one"))
	want("after another one", false, "a", "b")
	for i := range maxPods {
		s.again.note(config("a", fmt.Sprint(i)))
	}
	want("after a restart", false, "a", "b")
	inner.err = errors.New("scripted")
	if pods, _, err := s.podsOf(t.Context(), "noon"); !errors.Is(err, inner.err) {
		t.Errorf("%v, %v", pods, err)
	}
}

// A pod is forgotten with its last sandbox.
func TestRemovedPod(t *testing.T) {
	inner := &sandboxes{}
	s := &Starts{Sandboxes: inner}
	service := NewRuntimeService(inner, nil, nil, nil).WithStarts(s)
	first, second := inner.add("a", "noon", true), inner.add("a", "noon", true)
	remove := func(id string) error {
		_, err := service.RemovePodSandbox(t.Context(), &runtime.RemovePodSandboxRequest{PodSandboxId: id})
		return err
	}
	s.pullers.tell("noon", "app", noon)
	s.pullers.tell("one", "app", noon)
	s.again.note(&runtime.PodSandboxConfig{Metadata: podIn("a"), Annotations: map[string]string{configSeen: "after a restart"}})
	inner.err = errors.New("scripted")
	if err := remove(first); !errors.Is(err, inner.err) {
		t.Error(err)
	}
	inner.err = nil
	for _, step := range []struct {
		id   string
		left int
	}{{"unknown", 2}, {first, 2}, {second, 1}} {
		if err := remove(step.id); err != nil || s.pullers.pods.Len() != step.left {
			t.Errorf("after %s: %d pods are remembered, %v", step.id, s.pullers.pods.Len(), err)
		}
		if _, known := s.again.of("after a restart"); known == (step.id == second) {
			t.Errorf("after %s: its other annotation is remembered: %v", step.id, known)
		}
	}
	if _, err := NewRuntimeService(inner, nil, nil, nil).RemovePodSandbox(t.Context(), &runtime.RemovePodSandboxRequest{}); err != nil {
		t.Error(err)
	}
}
