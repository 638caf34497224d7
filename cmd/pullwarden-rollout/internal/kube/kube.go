// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube is the Kubernetes side of a rollout: its state in a ConfigMap, its nodes,
// and its pods, which are made of a template.
package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/pullwarden/pullwarden/cmd/pullwarden-rollout/internal/rollout"
)

// podLabel marks the pods of a rollout. Its value is the name of the ConfigMap.
const podLabel = "pullwarden.io/rollout"

// Cluster reaches the API server.
type Cluster struct {
	client    rest.Interface
	namespace string
	name      string          // of the ConfigMap
	selector  labels.Selector // of the nodes that get it
	template  corev1.Pod
	room      int // for the state, in bytes
}

// New returns a cluster whose state is in a ConfigMap that is there. The template is a pod
// whose only container has no arguments; selector is a label selector for
// the nodes that get it, "" for all.
func New(config *rest.Config, namespace, name, selector string, template corev1.Pod) (*Cluster, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	if len(template.Spec.Containers) != 1 {
		return nil, fmt.Errorf("the pod's template has %d containers, not one", len(template.Spec.Containers))
	}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.QPS = -1 // one request at a time: client-go's limit of 5 a second would make a look at many nodes outlast a step
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	chosen, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("the selector of nodes: %w", err)
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{client: client, namespace: namespace, name: name, selector: chosen, template: template, room: room}, nil
}

// Load implements [rollout.Ledger].
func (c *Cluster) Load(ctx context.Context) (rollout.State, string, error) {
	m, err := c.configMap(ctx)
	if err != nil {
		return rollout.State{}, "", err
	}
	s, err := unpack(m)
	if err != nil {
		return rollout.State{}, "", fmt.Errorf("the state in the ConfigMap %s/%s: %w", c.namespace, c.name, err)
	}
	return s, m.ResourceVersion, nil
}

func (c *Cluster) configMap(ctx context.Context) (*corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{}
	return m, c.client.Get().Namespace(c.namespace).Resource("configmaps").Name(c.name).Do(ctx).Into(m)
}

// Save implements [rollout.Ledger].
func (c *Cluster) Save(ctx context.Context, version string, s rollout.State, summary string) error {
	packed, err := pack(s, c.room)
	if err != nil {
		return err
	}
	m, err := c.configMap(ctx)
	if err != nil {
		return err
	}
	m.ResourceVersion = version
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	if m.BinaryData == nil {
		m.BinaryData = map[string][]byte{}
	}
	m.BinaryData[packedKey], m.Data[stateKey], m.Data[summaryKey] = packed, packedElsewhere, summary
	err = c.client.Put().Namespace(c.namespace).Resource("configmaps").Name(c.name).Body(m).Do(ctx).Error()
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w: %w", rollout.ErrChanged, err)
	}
	return err
}

// Start implements [rollout.Runner].
func (c *Cluster) Start(ctx context.Context, name, node string, v rollout.Verb) error {
	pod := c.template.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Name, pod.Namespace = name, c.namespace
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[podLabel] = c.name
	pod.Spec.NodeName = node
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	main := &pod.Spec.Containers[0]
	main.Args = append([]string{string(v)}, main.Args...)
	main.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	err := c.client.Post().Namespace(c.namespace).Resource("pods").Body(pod).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Stop implements [rollout.Runner].
func (c *Cluster) Stop(ctx context.Context, name string) error {
	err := c.client.Delete().Namespace(c.namespace).Resource("pods").Name(name).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
