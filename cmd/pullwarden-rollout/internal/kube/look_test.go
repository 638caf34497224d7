// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/rest"
)

// lister is an API server with so many nodes and pods. It gives a few at a time, and nodes in protobuf.
type lister struct{ nodes, pods int }

const fewAtATime = 10

func (l lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, _ := strconv.Atoi(query.Get("limit"))
	first, _ := strconv.Atoi(query.Get("continue"))
	if limit < fewAtATime || limit > 500 || query.Has("resourceVersion") {
		http.Error(w, "what would be listed at once, or is of long ago: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	more := func(all int) metav1.ListMeta {
		if first+fewAtATime < all {
			return metav1.ListMeta{Continue: strconv.Itoa(first + fewAtATime)}
		}
		return metav1.ListMeta{}
	}
	if strings.HasSuffix(r.URL.Path, "/pods") {
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: more(l.pods)}
		for i := first; i < min(first+fewAtATime, l.pods); i++ {
			list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)}})
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_ = json.NewEncoder(w).Encode(list)
		return
	}
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, ListMeta: more(l.nodes)}
	for i := first; i < min(first+fewAtATime, l.nodes); i++ {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}
		if i%2 == 0 { // an odd one has nothing of the one before it
			n.Labels = map[string]string{"kubernetes.io/os": "linux"}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}
		list.Items = append(list.Items, n)
	}
	if strings.HasPrefix(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		_ = protobuf.NewSerializer(nil, nil).Encode(&list, w)
		return
	}
	http.Error(w, "nodes are in protobuf", http.StatusNotAcceptable)
}

// However many there are, they are listed a page at a time, and no limit of the client's own makes that outlast a step.
func TestLookAtManyNodes(t *testing.T) {
	t.Parallel()
	want := lister{nodes: 1005, pods: 25}
	server := httptest.NewServer(want)
	defer server.Close()
	template := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "node"}}}}
	c, err := New(&rest.Config{Host: server.URL}, "p", "pullwarden-rollout", "kubernetes.io/os=linux", template)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	w, err := c.Look(ctx)
	if err != nil || len(w.Nodes) != want.nodes || len(w.Pods) != want.pods {
		t.Fatalf("%d nodes, %d pods: %v", len(w.Nodes), len(w.Pods), err)
	}
	for i, n := range w.Nodes {
		if odd := i%2 == 1; n.Name != fmt.Sprintf("node-%d", i) || n.Ready == odd || n.Excluded != odd {
			t.Errorf("%d: %+v", i, n)
		}
	}
	if last := w.Pods[want.pods-1].Name; last != "pod-24" {
		t.Errorf("the last pod is %s", last)
	}
}

// A pod says why it waits, and why it has ended.
func TestPodMessage(t *testing.T) {
	t.Parallel()
	for want, state := range map[string]corev1.ContainerState{
		"":                                  {Running: &corev1.ContainerStateRunning{}},
		"ErrImagePull not found":            {Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}},
		"Error Refused: it is another node": {Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "Refused: it is another node\n"}},
	} {
		pod := podOf(&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}}})
		if pod.Message != want || pod.Exited == 1 != (state.Terminated != nil) {
			t.Errorf("%+v, not %q", pod, want)
		}
	}
}
