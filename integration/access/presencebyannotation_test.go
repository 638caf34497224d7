// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"os"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A pod whose annotations have a label of snapshots learns nothing of what is on the node: CRI hands annotations of a pod on to the
// snapshot of its sandbox.
func TestPresenceByAnAnnotationOfAPod(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Containers(t))
	alices, pause := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{alice.user: alice.password})), resolvertest.New(t)
	n.Serve("a.private.test", alices)
	img := nodetest.Image(7)
	n.PushTo(alices, "team/app:7", img)
	n.RunPod(pause)
	n.Must(os.MkdirAll(n.Path("logs"), 0o700))
	run := func(i int) string {
		_, err := runtimeapi.NewRuntimeServiceClient(n.Conn).RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
			Metadata:     &runtimeapi.PodSandboxMetadata{Name: fmt.Sprint("eve", i), Uid: fmt.Sprint("eve", i), Namespace: "eve"},
			LogDirectory: n.Path("logs"),
			Annotations:  map[string]string{"containerd.io/snapshot.ref": nodetest.ChainOf(t, img)},
			Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER},
			}},
		}})
		return fmt.Sprint(err)
	}
	before := run(1)
	n.MustPull("a.private.test/team/app:7", alice.secret())
	nodetest.Want(t, "error of a pod once a private image is there", run(2), before)
}
