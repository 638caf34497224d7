// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"

	nodes "github.com/pullwarden/pullwarden/integration/node"
)

// ref is the reference that a pull asks for.
func (r *registry) ref(p Pull) string {
	if p.Digest != 0 {
		return r.name + "/" + repo[p.repo()] + "@" + r.digest(p.Digest).String()
	}
	return r.name + "/" + nameOf[p.Name]
}

// observe reads the state of the node from its image records. Blamed cannot be
// seen. The error is that of a record that no history allows.
func (n *node) observe(ctx context.Context, r *registry) (World, error) {
	records, err := n.records(ctx, r)
	if err != nil {
		return World{}, err
	}
	var w World
	for _, record := range records {
		name := strings.TrimPrefix(record.Name, r.name+"/")
		content := r.content(record.Target.Digest)
		if content == 0 {
			return w, fmt.Errorf("the record %s has a target that was never pushed", name)
		}
		proofs, err := n.proofs(record)
		if err != nil {
			return w, fmt.Errorf("the record %s: %w", name, err)
		}
		if repository, digest, ok := strings.Cut(name, "@"); ok {
			if digest != record.Target.Digest.String() {
				return w, fmt.Errorf("a record by digest has another target")
			}
			w.Has[slices.Index(repo[:], repository)][content].add(proofs | known)
			continue
		}
		tag := slices.Index(nameOf[:], name)
		w.Node[tag].Content = content
		w.Node[tag].Stale = Class(slices.Index(classNames[:], record.Labels[nodes.LabelPrefix+"stale-reason"]))
		w.Has[repoOf[tag]][content].add(proofs)
	}
	return w, nil
}

// proofs returns who has proved access by the labels of a record. Each pull
// that the histories make writes a check and proofs with the target, so a
// record without them, or with those of another digest, is an error.
func (n *node) proofs(record images.Image) (Set, error) {
	var proofs Set
	if got := record.Labels[nodes.LabelPrefix+"verified-digest"]; got != record.Target.Digest.String() {
		return 0, fmt.Errorf("its label verified-digest is not that of its target, but %q", got)
	}
	for label, value := range record.Labels {
		fingerprint, ok := strings.CutPrefix(label, nodes.LabelPrefix+"access.")
		if !ok || value == "" {
			continue
		}
		caller, ok := n.callers[fingerprint]
		if !ok {
			return 0, errors.New("it has a proof of unknown credentials")
		}
		proofs.add(caller.bit())
	}
	return proofs, nil
}

// runnable returns why a container cannot be made of some image of the history:
// all of its content is there and true, and a snapshot can be made from it.
func (n *node) runnable(ctx context.Context, r *registry) error {
	records, err := n.records(ctx, r)
	if err != nil {
		return err
	}
	done := map[digest.Digest]bool{}
	for _, record := range records {
		if done[record.Target.Digest] {
			continue
		}
		done[record.Target.Digest] = true
		img := containerd.NewImage(n.Client, record)
		err := n.Snapshotable(ctx, img, "overlayfs")
		if err != nil {
			// A kill can leave a snapshot's directory without its entry in the
			// database. The first attempt to make a snapshot then fails and
			// removes it, also in stock containerd.
			err = n.Snapshotable(ctx, img, "overlayfs")
		}
		if err != nil {
			return fmt.Errorf("%s cannot run: %w", record.Name, err)
		}
	}
	return nil
}
