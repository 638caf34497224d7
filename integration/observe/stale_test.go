// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"net/http"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// A fallback's labels stay until a check succeeds. A pull of containerd's own of the same image is none, with the transfer service
// or without.
func TestStaleMarkBesideContainerdsOwnPull(t *testing.T) {
	t.Parallel()
	for _, images := range []string{"use_local_image_pull = false", "use_local_image_pull = true"} {
		for _, how := range []string{"observed", "client"} {
			t.Run(images+" "+how, func(t *testing.T) {
				t.Parallel()
				n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.CRIImages(images))
				ref := nodetest.Named("app:1")
				n.Push("app:1", nodetest.Image(1))
				n.WriteRules("10.toml", nodetest.ObserveDev)
				n.MustPull(ref, node.Pod("prod", "pod"))
				n.Registry.Refuse()
				n.MustPull(ref, node.Pod("prod", "pod"))
				nodetest.Eventually(t, "the record is marked", func() bool { return n.Labels(ref)["stale-since"] != "" })
				before := n.Labels(ref)
				n.Recover()
				if how == "client" {
					if images == "use_local_image_pull = false" {
						n.Transfer(ref)
					} else {
						hosts := config.ConfigureHosts(t.Context(), config.HostOptions{HostDir: config.HostDirFromRoot(n.HostsDirs()[0])})
						_, err := n.Client.Pull(namespaces.WithNamespace(t.Context(), "k8s.io"), ref,
							containerd.WithResolver(docker.NewResolver(docker.ResolverOptions{Hosts: hosts})))
						n.Must(err)
					}
				} else {
					defer n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
						time.Sleep(time.Second) // longer than the check beside it waits, by a hint
						next.ServeHTTP(w, r)
					})()
					n.MustPull(ref, node.Pod("dev", "pod"), node.Hint("verify-timeout", "100ms"))
				}
				time.Sleep(time.Second) // what was observed is recorded after the answer
				after := n.Labels(ref)
				for _, label := range []string{"stale-since", "stale-reason", "verified-at", "verified-digest"} {
					nodetest.Want(t, label, after[label], before[label])
				}
			})
		}
	}
}
