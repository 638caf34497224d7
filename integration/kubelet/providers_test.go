// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestCredentialProvider holds that credentials of a credential provider plugin are proved
// as those of pull secrets are: pods start with the right ones, whatever their pull policy,
// before and after a restart of the kubelet, with the registry up and down; not with wrong
// ones, and not with none.
func TestCredentialProvider(t *testing.T) {
	onProvider(t, func(k *Kubelet, p *Provider) {
		d := k.Push("private:1", 1)
		p.Gives("not its password")
		wantAllDenied(k, withPolicies("private:1", Always, IfNotPresent, Never)...)
		p.Fails()
		wantAllDenied(k, withPolicies("private:1", Always, IfNotPresent)...)
		nodetest.Want(t, "records before the image is there", len(k.Records()), 0)

		p.Gives(oldPassword)
		k.Run(app("private:1", IfNotPresent)).WantStarted(d)
		for _, begin := range []func(){func() {}, k.Restart, k.Node.Registry.Refuse, k.Restart} {
			begin()
			p.Gives(oldPassword)
			wantAllStarted(k, d, withPolicies("private:1", Always, IfNotPresent, Never)...)
			p.Gives("not its password")
			wantAllDenied(k, app("private:1", Always))
			p.Fails()
			wantAllDenied(k, app("private:1", Always))
		}
		wantNodeRecord(k, "private", true)
		wantNoPassword(k, "not its password", oldPassword)
	})
}

// TestUnprovedProvider holds that the kubelet, whose record of a plugin's credentials
// opens an image to all pods, has none of an image that is there, as long as the plugin's
// credentials were not proved for it: with the registry up and down.
func TestUnprovedProvider(t *testing.T) {
	onProvider(t, func(k *Kubelet, p *Provider) {
		d := k.Push("private:1", 1)
		k.Node.MustPull(nodetest.Named("private:1"), node.Credentials(robot, oldPassword)) // not by the kubelet
		for _, begin := range []func(){func() {}, k.Node.Registry.Refuse, k.Restart} {
			begin()
			p.Gives("not its password")
			wantAllDenied(k, app("private:1", Always))
			p.Fails()
			wantAllDenied(k, app("private:1", Always))
			wantNodeRecord(k, "private", false)
		}
		p.Gives(oldPassword)
		k.Run(app("private:1", Always)).WantStarted(d) // proved by the pull
		wantNodeRecord(k, "private", true)
	})
}

// TestRotation holds that after a rotation of the registry's password the old one starts no
// pod that the kubelet asks about, not even when the registry is down, and the new one does
// once it was proved: the kubelet need not restart.
func TestRotation(t *testing.T) {
	onProvider(t, func(k *Kubelet, p *Provider) {
		pod, ref := app("private:1", Always), nodetest.Named("private:1")
		d := k.Push("private:1", 1)
		p.Gives(oldPassword)
		k.Run(pod).WantStarted(d)

		k.Node.Registry.SetPassword(robot, newPassword)
		k.Node.Registry.RevokeTokens()
		wantAllDenied(k, pod)
		p.Gives(newPassword)
		mark := k.Node.Mark()
		k.Run(pod).WantStarted(d)
		k.wantOutcome(mark, ref, "Unchanged")

		for _, begin := range []func(){k.Node.Registry.Refuse, k.Restart} {
			begin()
			p.Gives(oldPassword)
			wantAllDenied(k, pod)
			p.Gives(newPassword)
			mark := k.Node.Mark()
			k.Run(pod).WantStarted(d)
			k.wantOutcome(mark, ref, "UsedCached")
		}
		wantNoPassword(k, oldPassword, newPassword)
	})
}

// withPolicies returns a pod of that image for each pull policy.
func withPolicies(image string, policies ...string) (pods []Pod) {
	for _, policy := range policies {
		pods = append(pods, app(image, policy))
	}
	return pods
}

// wantAllStarted runs pods, all at once, and waits until each of them runs from that digest.
func wantAllStarted(k *Kubelet, d digest.Digest, pods ...Pod) {
	k.T.Helper()
	var all []*Running
	for _, p := range pods {
		all = append(all, k.Run(p))
	}
	for _, r := range all {
		r.WantStarted(d)
	}
	for _, r := range all {
		r.Remove()
	}
}

// wantNodeRecord holds whether the kubelet takes a repository's image for open to all pods
// of the node.
func wantNodeRecord(k *Kubelet, repository string, want bool) {
	k.T.Helper()
	open := false
	for _, c := range k.Records()[nodetest.Named(repository)] {
		open = open || c.NodePodsAccessible
		nodetest.Want(k.T, "number of secrets in a record", len(c.KubernetesSecrets), 0)
	}
	nodetest.Want(k.T, repository+" is open to all pods in the kubelet's records", open, want)
}

// wantNoPassword holds that the daemon's log has none of these.
func wantNoPassword(k *Kubelet, passwords ...string) {
	k.T.Helper()
	for _, password := range passwords {
		nodetest.Want(k.T, "number of log lines with a password", len(k.Node.LogLines(0, password)), 0)
	}
}
