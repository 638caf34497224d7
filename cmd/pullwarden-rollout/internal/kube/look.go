// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pullwarden/pullwarden/cmd/pullwarden-rollout/internal/rollout"
)

// controlPlaneLabel is on nodes of the control plane.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

// maxMessage bounds what is kept of a pod's last words, in bytes.
const maxMessage = 1024

// Look implements [rollout.Watcher].
func (c *Cluster) Look(ctx context.Context) (rollout.World, error) {
	var (
		w     rollout.World
		nodes corev1.NodeList
		pods  corev1.PodList
	)
	if err := c.client.Get().Resource("nodes").Do(ctx).Into(&nodes); err != nil {
		return w, err
	}
	if err := c.client.Get().Namespace(c.namespace).Resource("pods").Param("labelSelector", podLabel+"="+c.name).Do(ctx).Into(&pods); err != nil {
		return w, err
	}
	for i := range nodes.Items {
		node := nodeOf(&nodes.Items[i])
		node.Excluded = !c.selector.Matches(labels.Set(nodes.Items[i].Labels))
		w.Nodes = append(w.Nodes, node)
	}
	for i := range pods.Items {
		w.Pods = append(w.Pods, podOf(&pods.Items[i]))
	}
	return w, nil
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
