// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"slices"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const private = "registry.test/private"

// callers are the pull secrets of pods, and whether their pods may have the private
// image.
var callers = map[string]bool{"": false, "wrong": false, "alice": true, "alice-again": true}

// TestPullSecrets holds that KEP-2535's promise is kept under a kubelet with that gate
// on: an image that is there starts only with the credentials that pulled it, whatever
// the secret's name, the pod's policy and the registry's state, also after the kubelet
// has restarted; and that the kubelet has a record of no other credentials.
func TestPullSecrets(t *testing.T) {
	onCluster(t, func(t *testing.T) *resolvertest.Registry {
		return resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "secret of alice"}))
	}, func(k *Kubelet, c *Cluster) {
		c.Secret("alice", "alice", "secret of alice")
		c.Secret("alice-again", "alice", "secret of alice")
		c.Secret("wrong", "alice", "not her secret")
		d := k.Push("private:1", 1)
		var refused []*Running
		for _, secret := range []string{"", "wrong"} {
			refused = append(refused, k.Run(Pod{Images: []string{"private:1"}, Pull: IfNotPresent, Secret: secret}))
		}
		for _, r := range refused {
			r.WantDenied()
			r.Remove()
		}
		nodetest.Want(t, "records before the image is there", len(k.Records()), 0)
		k.Run(Pod{Images: []string{"private:1"}, Pull: IfNotPresent, Secret: "alice"}).WantStarted(d)

		for _, phase := range []struct {
			name  string
			begin func()
		}{
			{"the registry is up", func() {}},
			{"the kubelet has restarted", k.Restart},
			{"the registry is down", k.Node.Registry.Refuse},
			{"the registry is down and the kubelet has restarted", k.Restart},
		} {
			t.Log(phase.name)
			phase.begin()
			wantAccess(k)
			wantProvedRecords(k)
		}
	}, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2s"`))
}

// wantAccess runs a pod of each caller under each pull policy, all at once, and holds
// which of them start.
func wantAccess(k *Kubelet) {
	k.T.Helper()
	type started struct {
		*Running
		secret, pull string
	}
	var all []started
	for secret := range callers {
		for _, pull := range []string{Always, IfNotPresent, Never} {
			all = append(all, started{k.Run(Pod{Images: []string{"private:1"}, Pull: pull, Secret: secret}), secret, pull})
		}
	}
	d := k.Node.Target(private + ":1")
	for _, r := range all {
		k.T.Logf("%s: %s with the secret %q", r.name, r.pull, r.secret)
		if callers[r.secret] {
			r.WantStarted(d)
		} else {
			r.WantDenied()
		}
	}
	for _, r := range all {
		r.Remove()
	}
}

// wantProvedRecords holds that the kubelet's records of the private image name
// secrets with the right credentials alone.
func wantProvedRecords(k *Kubelet) {
	k.T.Helper()
	records := k.Records()[private]
	nodetest.Want(k.T, "number of records", len(records), 1)
	for _, record := range records {
		nodetest.Want(k.T, "the image is open to all pods", record.NodePodsAccessible, false)
		var names []string
		for _, s := range record.KubernetesSecrets {
			if names = append(names, s.Name); !callers[s.Name] {
				k.T.Errorf("the kubelet has a record of the secret %q", s.Name)
			}
		}
		if !slices.Contains(names, "alice") {
			k.T.Errorf("the kubelet's records have the secrets %q, want alice", names)
		}
	}
}
