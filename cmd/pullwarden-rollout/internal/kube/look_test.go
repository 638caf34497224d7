// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

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
