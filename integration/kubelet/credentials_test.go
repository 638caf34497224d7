// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"errors"
	"slices"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const private = "registry.test/private"

// callers are the pull secrets of pods, and whether their pods may have the private
// image.
var callers = map[string]bool{"": false, "wrong": false, "alice": true, "alice-again": true}

// onPrivate is onCluster with a registry that wants credentials, and with these pull
// secrets.
func onPrivate(t *testing.T, test func(*Kubelet)) {
	t.Helper()
	onCluster(t, func(t *testing.T) *resolvertest.Registry {
		return resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "secret of alice", "bob": "secret of bob"}))
	}, func(k *Kubelet, c *Cluster) {
		c.Secret("alice", "alice", "secret of alice")
		c.Secret("alice-again", "alice", "secret of alice")
		c.Secret("bob", "bob", "secret of bob")
		c.Secret("wrong", "alice", "not her secret")
		test(k)
	}, nodetest.Section(nodetest.IfDigestChanged))
}

// with is a pod of that image with that pull secret.
func with(secret, image string) Pod {
	return Pod{Images: []string{image}, Pull: IfNotPresent, Secret: secret}
}

// wantAllDenied runs pods, all at once, and holds that none of them starts.
func wantAllDenied(k *Kubelet, pods ...Pod) {
	k.T.Helper()
	var all []*Running
	for _, p := range pods {
		all = append(all, k.Run(p))
	}
	for _, r := range all {
		r.WantDenied()
		r.Remove()
	}
}

// TestPullSecrets holds that KEP-2535's promise is kept under a kubelet with that gate
// on: an image that is there starts only with the credentials that pulled it, whatever
// the secret's name, the pod's policy and the registry's state, also after the kubelet
// has restarted; and that the kubelet has a record of no other credentials.
func TestPullSecrets(t *testing.T) {
	onPrivate(t, func(k *Kubelet) {
		d := k.Push("private:1", 1)
		wantAllDenied(k, with("", "private:1"), with("wrong", "private:1"))
		nodetest.Want(t, "records before the image is there", len(k.Records()), 0)
		k.Run(with("alice", "private:1")).WantStarted(d)

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
	})
}

// TestPullInProgress holds that pods with other credentials do not share a pull that
// is in progress, and that the right ones count once it is done: in a kubelet that was
// there all along, and in one that was killed meanwhile.
func TestPullInProgress(t *testing.T) {
	onPrivate(t, func(k *Kubelet) {
		d := k.Push("private:1", 1)
		undo := k.Node.Registry.Hang(resolvertest.Blobs)
		alice := k.Run(with("alice", "private:1"))
		k.until("the pull is in progress", func() error {
			if k.Node.Registry.Count(resolvertest.Of("", resolvertest.Blobs)) == 0 {
				return errors.New("no blob was asked for")
			}
			return nil
		})
		wantAllDenied(k, with("", "private:1"), with("wrong", "private:1"))
		k.Stop()
		undo()
		k.Start()
		alice.WantStarted(d)
		wantAllDenied(k, with("", "private:1"), with("wrong", "private:1"))
		wantProvedRecords(k)
	})
}

// TestSameContent holds that proofs are of a name: that the image of a name is there
// under another opens neither to those who may have the other.
func TestSameContent(t *testing.T) {
	onPrivate(t, func(k *Kubelet) {
		k.Node.Registry.Allow(func(user, repository string) bool {
			return user == "alice" && repository == "private" || user == "bob" && repository == "second"
		})
		d := k.Push("private:1", 1)
		k.Push("second:1", 1)
		k.Run(with("alice", "private:1")).WantStarted(d)
		wantAllDenied(k, with("bob", "private:1"), with("alice", "second:1"), with("", "second:1"))
		k.Run(with("bob", "second:1")).WantStarted(d)
		wantAllDenied(k, with("bob", "private:1"), with("alice", "second:1"), with("", "private:1"))
		wantProvedRecords(k)
	})
}

// TestRevoked holds that a secret that was revoked starts no pod with imagePullPolicy:
// Always, and that the kubelet's record still starts those that it does not ask about.
func TestRevoked(t *testing.T) {
	onPrivate(t, func(k *Kubelet) {
		d := k.Push("private:1", 1)
		k.Run(with("alice", "private:1")).WantStarted(d)
		k.Node.Registry.Allow(func(string, string) bool { return false })
		k.Node.Registry.RevokeTokens()
		always := with("alice", "private:1")
		always.Pull = Always
		wantAllDenied(k, always)
		k.Run(with("alice", "private:1")).WantStarted(d)
	})
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
