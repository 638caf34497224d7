// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A host path, or a subPath bind of the kubelet (/var/lib/kubelet/pods/U/volume-subpaths/<volume>/<container>/<n>), of an honest pod
// that has a volume named image-volumes, is no mount of an image: its status has to say the path that is mounted, and errors have to.
func TestHonestPathsStay(t *testing.T) {
	for _, path := range []string{
		"/srv/image-volumes/db/data",
		"/srv/image-volumes/cafe/backup",
		"/var/lib/kubelet/pods/0f/volume-subpaths/image-volumes/db/0",
	} {
		status := &runtime.ContainerStatus{Mounts: []*runtime.Mount{{HostPath: path, ContainerPath: "/d"}}, Message: "failed to stat " + path}
		hideMounts(status)
		if got := status.GetMounts()[0].GetHostPath(); got != path {
			t.Errorf("host_path of %s: %s", path, got)
		}
		if got := status.GetMessage(); got != "failed to stat "+path {
			t.Errorf("message of %s: %s", path, got)
		}
	}
}
