// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/pullwarden/pullwarden/cmd/pullwarden-rollout/internal/rollout"
)

// controlPlaneLabel is on nodes of the control plane.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// maxMessage bounds what is kept of a pod's last words, in bytes.
const maxMessage = 1024

// pageSize is how many objects are asked for at a time. Nodes in use have some 20 kB each: those of a large cluster at once
// are more memory than the controller has.
const pageSize = 250

// Look implements [rollout.Watcher].
func (c *Cluster) Look(ctx context.Context) (rollout.World, error) {
	var w rollout.World
	err := pages(ctx, func() *rest.Request { return c.client.Get().Resource("nodes") }, func(page *corev1.NodeList) {
		for i := range page.Items {
			node := nodeOf(&page.Items[i])
			node.Excluded = !c.selector.Matches(labels.Set(page.Items[i].Labels))
			w.Nodes = append(w.Nodes, node)
		}
	})
	if err != nil {
		return w, err
	}
	err = pages(ctx, func() *rest.Request {
		return c.client.Get().Namespace(c.namespace).Resource("pods").Param("labelSelector", podLabel+"="+c.name)
	}, func(page *corev1.PodList) {
		for i := range page.Items {
			w.Pods = append(w.Pods, podOf(&page.Items[i]))
		}
	})
	return w, err
}

// pages calls a function with each page of what a request lists, all of the same moment. It keeps none of them.
func pages[L any, P interface {
	*L
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, request func() *rest.Request, reduce func(P)) error {
	for next := ""; ; {
		page := P(new(L))
		r := request().Param("limit", strconv.Itoa(pageSize))
		if next != "" {
			r = r.Param("continue", next)
		}
		if err := r.Do(ctx).Into(page); err != nil {
			return err
		}
		reduce(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

func nodeOf(n *corev1.Node) rollout.Node {
	_, controlPlane := n.Labels[controlPlaneLabel]
	node := rollout.Node{Name: n.Name, UID: string(n.UID), ControlPlane: controlPlane, Runtime: n.Status.NodeInfo.ContainerRuntimeVersion}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			node.Ready = condition.Status == corev1.ConditionTrue
			node.Changed = condition.LastTransitionTime.Time
		}
	}
	return node
}

func podOf(p *corev1.Pod) rollout.Pod {
	pod := rollout.Pod{
		Name: p.Name, Node: p.Spec.NodeName, Message: p.Status.Message, Leaving: p.DeletionTimestamp != nil,
		Ended: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed, Succeeded: p.Status.Phase == corev1.PodSucceeded,
	}
	for i := range p.Status.ContainerStatuses {
		if waiting := p.Status.ContainerStatuses[i].State.Waiting; waiting != nil { // such as for an image
			pod.Message = strings.TrimSpace(pod.Message + " " + waiting.Reason + " " + waiting.Message)
		}
		if end := p.Status.ContainerStatuses[i].State.Terminated; end != nil {
			const killed = 128 // with a signal's number added
			if end.Signal == 0 && end.ExitCode < killed {
				pod.Exited = int(end.ExitCode)
			}
			pod.Message = strings.TrimSpace(pod.Message + " " + end.Reason + " " + end.Message)
		}
	}
	if len(pod.Message) > maxMessage {
		pod.Message = pod.Message[:maxMessage]
	}
	pod.Message = strings.ToValidUTF8(pod.Message, "")
	return pod
}
