// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	nodes "github.com/pullwarden/pullwarden/integration/node"
)

// node is the daemon that histories are tried on. All of them share it, one
// after the other.
type node struct {
	*nodes.Node
	holders map[string]Holder // by fingerprint
	probe   *registry         // of images that outlive histories
	killed  bool              // at least once
}

// newNode starts a daemon. The caller closes it.
func newNode(ctx context.Context, binary string) (*node, error) {
	probe, err := newRegistry(0, true) //nolint:contextcheck // it lives until it is closed
	if err != nil {
		return nil, err
	}
	o := nodes.Options{Binary: binary, Section: []string{"enabled = true"}, LogLevel: "info", NoSync: true}
	setting, err := nodes.SettingFromEnv()
	if err != nil {
		probe.Close()
		return nil, err
	}
	o.Apply(setting)
	d, err := nodes.Start(ctx, o)
	if err != nil {
		probe.Close()
		return nil, err
	}
	n := &node{Node: d, holders: map[string]Holder{"anonymous": Nobody.holder()}, probe: probe}
	if err := n.learn(ctx); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *node) close() error {
	n.probe.Close()
	return n.Close()
}

// learn finds out the fingerprints of the callers and namespaces on this node.
func (n *node) learn(ctx context.Context) error {
	pulls := []Pull{{Caller: Alice, Policy: Always}}
	for namespace := TeamA; namespace < namespaces; namespace++ { // before a mirror makes the image everybody's
		pulls = append(pulls, Pull{Caller: Alice, Namespace: namespace, Policy: Always})
	}
	for i, caller := range []Caller{Wrong, Bob} {
		pulls = append(pulls, Pull{Caller: caller, Name: i + 1, Policy: Always})
	}
	for _, p := range pulls {
		if err := n.probe.push(ctx, p.Name, 1); err != nil {
			return err
		}
		if err := n.learnHolder(ctx, p, Rule{Policy: Always, ByNamespace: p.Namespace >= TeamA}); err != nil {
			return err
		}
	}
	if len(n.holders) != holders-1 {
		return fmt.Errorf("the fingerprints are %v", n.holders)
	}
	return nil
}

// learnHolder has a pull proved under a rule. The fingerprint that is new then is
// the holder's.
func (n *node) learnHolder(ctx context.Context, p Pull, rule Rule) error {
	holder := rule.holder(p)
	n.probe.set(func(r *Registry) { r.Mirror = p.Caller == Wrong })
	err := errors.Join(n.rule(rule, n.probe.mirror.Host()), n.serve(n.probe))
	if err == nil {
		_, err = n.pull(ctx, n.probe, p, "probe")
	}
	if err != nil {
		return fmt.Errorf("learn the fingerprint of %v: %w", holder, err)
	}
	return n.Until(ctx, fmt.Sprintf("the fingerprint of %v is there", holder), func(ctx context.Context) error {
		record, err := n.Client.ImageService().Get(ctx, n.probe.ref(p))
		if err != nil {
			return err
		}
		for label := range record.Labels {
			f, ok := strings.CutPrefix(strings.TrimSuffix(label, earlier), nodes.LabelPrefix+"access.")
			if _, known := n.holders[f]; ok && !known {
				n.holders[f] = holder
				return nil
			}
		}
		return errors.New("it is not")
	})
}

// flush waits until all that was found out so far is written: results of checks
// are written in their order, and this makes one more.
func (n *node) flush(ctx context.Context) error {
	const label, never = nodes.LabelPrefix + "verified-at", "2001-01-01T00:00:00Z"
	p := Pull{Caller: Alice, Policy: Always}
	img := images.Image{Name: n.probe.ref(p), Labels: map[string]string{label: never}}
	if _, err := n.Client.ImageService().Update(ctx, img, "labels."+label); err != nil {
		return err
	}
	if _, err := n.pull(ctx, n.probe, p, "probe"); err != nil {
		return err
	}
	return n.Until(ctx, "a check is written", func(ctx context.Context) error {
		record, err := n.Client.ImageService().Get(ctx, img.Name)
		if err == nil && record.Labels[label] == never {
			err = errors.New("it is not")
		}
		return err
	})
}

// serve makes a registry known to the daemon.
func (n *node) serve(r *registry) error {
	if r.now().Mirror {
		return n.Serve(r.name, r.Registry, r.mirror)
	}
	return n.Serve(r.name, r.Registry)
}

// rule sets the rule for all images, at a registry's mirror.
func (n *node) rule(r Rule, mirror string) error {
	text := fmt.Sprintf("[[rule]]\nimages = [\"**\"]\npolicy = %q\naccess = %q\nresolve_from = %q\n", r.Policy, r.Access, r.From)
	if r.ByNamespace {
		text += "access_identity = \"Namespace\"\n"
	}
	if r.Authority {
		text += fmt.Sprintf("authority = [%q]\n", mirror)
	}
	text += r.Fresh.toml()
	if r.Lenient {
		text += "[rule.on]\n"
		for _, class := range []Class{Unauthorized, Forbidden, Invalid} {
			text += class.String() + " = \"UseCached\"\n"
		}
	}
	return n.WriteRules("10-histories.toml", text)
}

// pull asks CRI for an image, as the kubelet does for the pod of that name.
func (n *node) pull(ctx context.Context, r *registry, p Pull, pod string) (id string, err error) {
	timeout := "30s"
	switch now := r.now(); {
	case now.Trouble == Swallows && now.Mirror && now.Rule.From != FromOrigin:
		timeout = "10s" // half of it is the mirror's, which answers
	case now.Trouble == Swallows:
		timeout = "250ms"
	}
	options := []nodes.PullOption{nodes.Pod(p.Namespace.String(), pod), nodes.Hint("verify-timeout", timeout)}
	if p.Policy != ByRule {
		options = append(options, nodes.Hint("policy", p.Policy.String()))
	}
	if p.MaxAge {
		options = append(options, nodes.Hint("max-age", "1h"))
	}
	if p.FailOn != None {
		options = append(options, nodes.Hint("on-"+strings.ReplaceAll(p.FailOn.String(), "_", "-"), "Fail"))
	}
	if user, password := p.Caller.credentials(); user != "" {
		options = append(options, nodes.Credentials(user, password))
	}
	return n.Pull(ctx, r.ref(p), options...)
}

// clear removes all images but the probe's, also those that CRI does not know.
func (n *node) clear(ctx context.Context) error {
	all, err := n.Images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return err
	}
	for _, img := range all.GetImages() {
		if img.GetId() == n.probe.id(1) {
			continue
		}
		if err := n.Remove(ctx, img.GetId()); err != nil {
			return err
		}
	}
	records, err := n.Client.ImageService().List(ctx)
	if err != nil {
		return err
	}
	for _, record := range records {
		if record.Target.Digest == n.probe.digest(1) {
			continue
		}
		if err := n.Client.ImageService().Delete(ctx, record.Name); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// kill ends the daemon with SIGKILL.
func (n *node) kill() error {
	n.killed = true
	return n.Kill()
}

// records returns the image records of a registry.
func (n *node) records(ctx context.Context, r *registry) ([]images.Image, error) {
	return n.Client.ImageService().List(ctx, fmt.Sprintf("name~=%q", "^"+r.name+"/"))
}

// decisions returns the decisions since the mark, by the names of the pods.
func (n *node) decisions(since nodes.Mark) (map[string]nodes.Decision, error) {
	decisions, err := n.Decisions(since, "")
	if err != nil {
		return nil, err
	}
	all := map[string]nodes.Decision{}
	for _, d := range decisions {
		if _, twice := all[d.Pod]; twice {
			return nil, fmt.Errorf("two decisions for one request: %+v", d)
		}
		all[d.Pod] = d
	}
	return all, nil
}
